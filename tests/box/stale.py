"""Ends what a run of before left, which was killed or failed: its repetition begins from a clean state."""

import os
import re

import kerntest


def end_boxes():
    """Ends each kern whose test is no more: its scratch folder, which is named after it, stands in kern's environment."""
    def is_stale(environment):
        owner = re.search(rb"/kernbox-test-(\d+)-", environment)
        return owner is not None and not os.path.exists(f"/proc/{int(owner.group(1))}")
    for pid in kerntest.kerns(is_stale):
        kerntest.kill(pid)
