#!/usr/bin/env bash
# Makes .venv with the pinned dependencies and RLStudio itself (editable). Does nothing when nothing changed.
#
#   ./bootstrap.sh          what a user needs
#   ./bootstrap.sh envs     and the environments of extras: Box2D, MuJoCo, MiniGrid, Atari (0.3 GB more)
#   ./bootstrap.sh dev      and what the checks need, EnvPool, PettingZoo and Ray included (another 1.5 GB)
#
# PYTHON           the interpreter to use (3.11 or newer); otherwise python3.11, then python3
# TORCH_FLAVOR     cpu (default on Linux, a download of 0.2 GB) or default (what the package index serves: on Linux CUDA, GBs)
# TORCH_INDEX_URL  a package index to take torch from, such as PyTorch's own index of CPU or CUDA wheels
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

profile=${1:-user}
flavor=${TORCH_FLAVOR:-cpu}
venv=.venv

fail() {
    echo "bootstrap: $1" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
        [ -z "${PYTHON:-}" ] || fail "PYTHON=$PYTHON is not a Python 3.11 or newer; name one that is"
    done
    fail "Python 3.11 or newer is needed; install it, or name one: PYTHON=/path/to/python3.11 make setup"
}

fingerprint() {
    local sha=sha256sum
    command -v sha256sum >/dev/null || sha="shasum -a 256"
    { cat pyproject.toml constraints.txt && echo "$flavor ${TORCH_INDEX_URL:-}"; } | $sha | cut -c1-16
}

pip() {
    "$venv/bin/python" -m pip --disable-pip-version-check -qq "$@"
}

make_venv() {
    # A virtual environment that was moved or copied has the old place in every script: make it anew.
    if [ -x "$venv/bin/python" ] && "$venv/bin/python" -c '' 2>/dev/null && grep -qF "$(pwd -P)/$venv" "$venv/bin/activate"; then
        return
    fi
    local python
    python=$(find_python)
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "$python cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv"
    "$python" -m venv --clear "$venv"
}

# torch goes first and alone, because its CPU build carries a tag (+cpu) that only some indexes know, and because an
# extra index on the main install would be asked for every package. Without it the main install takes the default build.
install_torch() {
    local version
    version=$(sed -n 's/^torch==//p' constraints.txt)
    if "$venv/bin/python" -c 'import sys; from importlib.metadata import version
sys.exit(version("torch").split("+")[0] != sys.argv[1])' "$version" 2>/dev/null; then
        return
    fi
    if [ -n "${TORCH_INDEX_URL:-}" ]; then
        pip install --no-deps "torch==$version" --index-url "$TORCH_INDEX_URL" ||
            fail "torch $version is not at TORCH_INDEX_URL=$TORCH_INDEX_URL; correct it or unset it"
    elif [ "$flavor" = cpu ] && [ "$(uname -s)" = Linux ]; then
        pip install --no-deps "torch==$version+cpu" 2>/dev/null ||
            echo "No CPU build of torch here: taking the default one, which is large (TORCH_INDEX_URL names another index)."
    fi
}

case $profile in
    user) project=".[serve]" within="user envs dev" ;;
    envs) project=".[serve,envs]" within="envs dev" ;;
    dev) project=".[dev,docs,serve,envs,envpool,marl,postgres,sweep,export,minari,parquet,ray,mlflow,wandb]" within=dev ;;
    *) fail "unknown profile '$profile'; use ./bootstrap.sh, ./bootstrap.sh envs or ./bootstrap.sh dev" ;;
esac

make_venv
print=$(fingerprint)
for done in $within; do
    if [ -e "$venv/.ready-$done-$print" ]; then
        exit 0
    fi
done

echo "Installing RLStudio into $venv ($profile); the first time takes a few minutes."
rm -f "$venv"/.ready-*
# setuptools in the environment, so that building needs no second download and a later setup needs no network at all.
pip install -c constraints.txt setuptools
install_torch
# Its earlier name, which is somebody else's on the public index (docs/decisions/0039). It must go before the new one
# comes: both own the same scripts.
pip uninstall --yes rlstudio || fail "rlstudio, the earlier name of RLStudio, cannot be uninstalled (see above)"
rm -rf src/rlstudio.egg-info
pip install -c constraints.txt --no-build-isolation -e "$project" ||
    fail "the installation did not finish (see above); run it again once the cause is gone"
touch "$venv/.ready-$profile-$print"
