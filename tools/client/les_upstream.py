"""A pytest plugin for llama.cpp's own server tests: every model that they would download is one file that is here.

LES_TEST_MODEL names it. Tests of several models at once (router, drafters, adapters, images) keep what they ask for.
"""

import os

import pytest

MODEL = os.environ["LES_TEST_MODEL"]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    import utils

    start = utils.ServerProcess.start

    def start_here(self, *args, **kwargs):
        if self.model_hf_repo and not self.mmproj_url:
            self.model_hf_repo = self.model_hf_file = None
            self.model_file = MODEL
        self.offline = True
        return start(self, *args, **kwargs)

    utils.ServerProcess.start = start_here
    utils.ServerPreset.load_all = staticmethod(lambda: None)
