"""A pytest plugin for llama.cpp's own server tests: every model that they would download is one file that is here.

LES_TEST_MODEL names it, and LES_TEST_PROJECTOR the projector of tests with pictures. The router finds the model under the
names of three in the cache of downloads (LLAMA_CACHE), and drafts are made by it too. Adapters stay what they are: not here.
"""

import os
import pathlib
import shutil
import struct
import zlib

import pytest

MODEL = os.environ["LES_TEST_MODEL"]
PROJECTOR = os.environ["LES_TEST_PROJECTOR"]
CACHED = {
    "ggml-org/tinygemma3-GGUF": "tinygemma3-Q8_0.gguf",
    "ggml-org/test-model-stories260K": "stories260K-F32.gguf",
    "ggml-org/test-model-stories260K-infill": "stories260K-infill-F32.gguf",
}
COMMIT = "0" * 40
TEMPORARY = pathlib.Path("tmp")  # where upstream's tests put their files


def fill_cache(folder):
    """Lays out the cache as the downloader does: a commit for each name, and its files."""
    for repo, name in CACHED.items():
        home = folder / ("models--" + repo.replace("/", "--"))
        (home / "refs").mkdir(parents=True, exist_ok=True)
        (home / "refs" / "main").write_text(COMMIT)
        (home / "snapshots" / COMMIT).mkdir(parents=True, exist_ok=True)
        link = home / "snapshots" / COMMIT / name
        if not link.exists():
            link.symlink_to(MODEL)


def picture(name):
    """A PNG of one colour, another one for each name."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    colour = struct.pack(">I", zlib.crc32(name.encode()))[:3]
    rows = (b"\0" + colour*32)*32
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    import requests
    import utils

    start, download, get = utils.ServerProcess.start, utils.download_file, requests.get

    def start_here(self, *args, **kwargs):
        os.environ.pop("LLAMA_ARG_MMPROJ", None)
        # A server that is started again has no repository any more.
        self.sees = getattr(self, "sees", False) or "tinygemma3" in (self.model_hf_repo or "")
        if self.sees and not self.no_mmproj:
            os.environ["LLAMA_ARG_MMPROJ"] = PROJECTOR
        if self.model_hf_repo and not self.mmproj_url:
            self.model_hf_repo = self.model_hf_file = None
            self.model_file = MODEL
        self.offline = True
        return start(self, *args, **kwargs)

    def download_here(url, *args, **kwargs):
        return download(url, *args, **kwargs) if "lora" in url.lower() else MODEL

    def get_here(url, *args, **kwargs):
        if not url.endswith(".png"):
            return get(url, *args, **kwargs)
        answer = requests.Response()
        answer.status_code, answer._content = 200, picture(url)
        return answer

    requests.get = get_here
    utils.ServerProcess.start = start_here
    utils.download_file = download_here
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    fill_cache(pathlib.Path(os.environ["LLAMA_CACHE"]))
    config.les_found = set(TEMPORARY.iterdir()) if TEMPORARY.exists() else None
    TEMPORARY.mkdir(exist_ok=True)


def pytest_unconfigure(config):
    """Removes what the tests have made, and the folder if it was not there before."""
    if not hasattr(config, "les_found"):
        return
    if config.les_found is None:
        shutil.rmtree(TEMPORARY, ignore_errors=True)
        return
    for path in set(TEMPORARY.iterdir()) - config.les_found:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
