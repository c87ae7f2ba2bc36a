"""EnvPool: worlds in C++ behind the same contract."""
