#!/usr/bin/env bash
# llama-server as its clients see it, experts streamed against resident ones: chat,
# streaming, tools, JSON schemas, changes of the pool, clients that ask at once and
# vanish (tools/client/check.py, whose flags may follow). The client is the official
# openai package, in an environment of its own under the build directory.
#
#   scripts/test-client.sh --seconds 600 --sequences 8
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${LES_BUILD_DIR:-$root/build}
python=$build/venv/bin/python
mkdir -p "$build/test"

if [ ! -x "$python" ] || ! "$python" -c 'import openai' 2>/dev/null; then
    python3 -m venv "$build/venv"
    "$python" -m pip install --quiet --requirement "$root/tools/client/requirements.txt"
fi
cd "$root/tools/client"
PYTHONDONTWRITEBYTECODE=1 "$python" check.py --program "$build/bin/llama-server" \
    --model "$root/models/les-ref.gguf" --text "$root/models/heldout.txt" --log "$build/test/server.log" \
    --template "$root/llama/llama.cpp/models/templates/Qwen-Qwen2.5-7B-Instruct.jinja" "$@"
