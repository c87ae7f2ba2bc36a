"""Commands of Slurm that run a job's script as a real process of this machine. What they know is files in one folder:
N.sh, N.name, N.pid, N.code; `hold` keeps jobs waiting, N.requeue has a job started again when its script ends."""

from __future__ import annotations

import os
import signal
from pathlib import Path

COMMANDS = {
    "sbatch": """
id=$(( $(ls "$D" | grep -c '[.]sh$') + 1 ))
cat > "$D/$id.sh"
sed -n 's/^#SBATCH --job-name=//p' "$D/$id.sh" > "$D/$id.name"
log=$(sed -n 's/^#SBATCH --output=//p' "$D/$id.sh")
setsid "$B/job" "$id" < /dev/null >> "$log" 2>&1 &
echo "$id;stand-in"
""",
    "job": """
id=$1; count=0
while [ -e "$D/hold" ] && [ ! -e "$D/$id.code" ]; do sleep 0.05; done
while [ ! -e "$D/$id.code" ]; do
    SLURM_JOB_ID=$id SLURM_RESTART_COUNT=$count bash "$D/$id.sh" &
    echo $! > "$D/$id.pid"
    wait $!; code=$?
    if [ -e "$D/$id.requeue" ]; then rm "$D/$id.requeue"; count=$((count + 1)); else echo $code > "$D/$id.code"; fi
done
""",
    "squeue": """
cd "$D"
for file in *.sh; do
    id=${file%.sh}
    [ -e "$file" ] || continue
    [ -e "$id.code" ] || echo "$id|$(cat "$id.name")|$([ -e "$id.pid" ] && echo RUNNING || echo PENDING)|node1"
done
""",
    "sacct": """
code=$(cat "$D/$2.code")
[ "$code" = 0 ] && echo "COMPLETED|0:0" || echo "FAILED|$code:0"
""",
    "scancel": """
if [ -e "$D/$1.pid" ]; then kill -TERM "$(cat "$D/$1.pid")"; else echo 1 > "$D/$1.code"; fi
echo "$1" >> "$D/cancelled"
""",
    "scontrol": """touch "$D/$2.requeue" """,
}


class SlurmStandIn:
    def __init__(self, folder: Path) -> None:
        self.folder, self.programs = folder / "jobs", folder / "bin"
        self.folder.mkdir(parents=True)
        self.programs.mkdir()
        for name, text in COMMANDS.items():
            program = self.programs / name
            program.write_text(f"#!/bin/bash\nD={self.folder}\nB={self.programs}\n{text}")
            program.chmod(0o755)

    @property
    def path(self) -> str:
        """For the variable PATH."""
        return f"{self.programs}{os.pathsep}{os.environ['PATH']}"

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def hold(self) -> None:
        (self.folder / "hold").touch()

    def near_time_limit(self, job: str) -> None:
        os.kill(self._pid(job), signal.SIGUSR1)

    def preempt(self, job: str) -> None:
        (self.folder / f"{job}.requeue").touch()
        os.kill(self._pid(job), signal.SIGTERM)

    def _pid(self, job: str) -> int:
        return int((self.folder / f"{job}.pid").read_text())
