#!/usr/bin/env bash
# llama.cpp's own tests of its server (tools/server/tests), on models/les-ref.gguf in place
# of what they would download: once with LES off, once with experts streamed. Prints a
# table of what passed, and fails where a test passes only with LES off. Those that
# upstream marks slow, which ask for models of gigabytes, are left out as upstream does.
# Takes ten minutes. Arguments go to pytest.
#
#   scripts/upstream-server-tests.sh unit/test_completion.py
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$(cd "${LES_BUILD_DIR:-$root/build}" && pwd)
out=$build/upstream-server
python=$build/venv-upstream/bin/python
mkdir -p "$out"

if [ ! -x "$python" ]; then
    python3 -m venv "$build/venv-upstream"
    "$python" -m pip install --quiet pytest pytest-timeout requests filelock numpy aiohttp prometheus-client wget openai
fi

(cd "$root" && scripts/go.sh run ./cmd/liblesext/testdata/projector models/les-ref.gguf "$out/mmproj.gguf")

# run runs the tests with variables of the environment; its name is that of the report.
run() {
    local name=$1
    shift
    (cd "$root/llama/llama.cpp/tools/server/tests" &&
        env "$@" OMP_WAIT_POLICY=passive PYTHONPATH="$root/tools/client" PYTHONDONTWRITEBYTECODE=1 LES_TEST_MODEL="$root/models/les-ref.gguf" LES_TEST_PROJECTOR="$out/mmproj.gguf" \
            LLAMA_SERVER_BIN_PATH="$build/bin/llama-server" LLAMA_CACHE="$out/cache" \
            "$python" -m pytest -p les_upstream -p no:cacheprovider -q --timeout 120 -m "not slow" \
            --junit-xml "$out/$name.xml" "${tests[@]}" >"$out/$name.log" 2>&1) || true
}

tests=("${@:-unit}")
# A server that is left over from a run before would be asked in the place of the one
# that a test starts.
if curl -s -o /dev/null "http://127.0.0.1:${PORT:-8080}/health"; then
    echo "upstream-server-tests: something answers at port ${PORT:-8080}; another may be chosen: PORT=" >&2
    exit 1
fi
run off LES=off
run on LES=on LES_SLOTS=1
"$python" "$root/tools/client/upstream_report.py" "$out/off.xml" "$out/on.xml"
