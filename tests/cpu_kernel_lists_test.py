"""tools/cpu_kernel_lists.py: new lists are added, and those that there are stay as they are."""

import json
import sys

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools"))
import cpu_kernel_lists  # noqa: E402


@pytest.fixture
def add(tmp_path, monkeypatch):
    kernels = {"kernels": [{"blocks": 4, "block_us": 1.5, "deps": []}, {"blocks": 2, "block_us": 3, "deps": [0]},
                           {"blocks": 1, "block_us": 0.5, "deps": [0, 1]}]}
    lagoon = tmp_path / "lagoon"
    lagoon.write_text(f"#!/bin/sh\necho '{json.dumps(kernels)}'\n")
    lagoon.chmod(0o755)
    table = tmp_path / "lists.cc"
    table.write_text(cpu_kernel_lists.TABLE.read_text())
    monkeypatch.setattr(cpu_kernel_lists, "TABLE", table)

    def run(models):
        monkeypatch.setattr(sys, "argv", ["cpu_kernel_lists.py", "--lagoon", str(lagoon), "--add", models])
        cpu_kernel_lists.main()
        return table.read_text()
    return run


def test_added_lists_follow_those_that_there_are(add):
    before = cpu_kernel_lists.TABLE.read_text()
    after = add("densenet201,distilbert")
    new = ('    CpuList{"densenet201",\n        "4x1500 2x3000 1x500:0,1"},\n'
           '    CpuList{"distilbert",\n        "4x1500 2x3000 1x500:0,1"},\n')
    assert after.replace(new, "") == before and after != before


def test_a_list_that_there_is_is_not_measured_again(add):
    with pytest.raises(SystemExit):
        add("densenet201,vgg19")
    assert "densenet201" not in cpu_kernel_lists.TABLE.read_text()
