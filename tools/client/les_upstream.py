"""A pytest plugin for llama.cpp's own server tests: every model that they would download is one file that is here.

LES_TEST_MODEL names it. The router finds it under the names of three models in the cache of downloads (LLAMA_CACHE), and
drafts are made by it too. Adapters and projectors stay what they are: not here.
"""

import os
import pathlib

import pytest

MODEL = os.environ["LES_TEST_MODEL"]
CACHED = {
    "ggml-org/tinygemma3-GGUF": "tinygemma3-Q8_0.gguf",
    "ggml-org/test-model-stories260K": "stories260K-F32.gguf",
    "ggml-org/test-model-stories260K-infill": "stories260K-infill-F32.gguf",
}
COMMIT = "0" * 40


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


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    import utils

    start, download = utils.ServerProcess.start, utils.download_file

    def start_here(self, *args, **kwargs):
        if self.model_hf_repo and not self.mmproj_url:
            self.model_hf_repo = self.model_hf_file = None
            self.model_file = MODEL
        self.offline = True
        return start(self, *args, **kwargs)

    def download_here(url, *args, **kwargs):
        return download(url, *args, **kwargs) if "lora" in url.lower() else MODEL

    utils.ServerProcess.start = start_here
    utils.download_file = download_here
    utils.ServerPreset.load_all = staticmethod(lambda: None)
    fill_cache(pathlib.Path(os.environ["LLAMA_CACHE"]))
