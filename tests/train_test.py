"""`lagoon train placement`: a toy training, its files, and going on after an interruption."""

import csv
import subprocess
import time

import pytest

SMALL = ("--steps", "3", "--hidden", "8,8", "--batch", "16", "--examine-every", "2")


def train(lagoon, out, *words):
    return lagoon.run("train", "placement", *SMALL, "--out", str(out), *words)


def test_a_toy_training_writes_weights_curve_and_checkpoint(lagoon, tmp_path):
    out = tmp_path / "toy.weights"
    result = train(lagoon, out, "--episodes", "3")
    assert result.returncode == 0, result.stderr
    assert "examination: reward" in result.stdout
    assert out.read_bytes().startswith(b"LGNETS\0")
    assert (tmp_path / "toy.checkpoint").exists()
    with open(tmp_path / "toy.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["episode"] for row in rows] == ["1", "2", "3"]
    assert rows[0]["exam_reward"] == "" and rows[1]["exam_reward"] != ""
    assert all(0 <= float(row["violations"]) <= 1 for row in rows)
    for band in ("to_1", "1_to_1.4", "from_1.4"):
        assert rows[0][f"exam_global_{band}"] == ""
        for column in ("networks", "global", "local", "guess", "lagoon"):
            assert 0 <= float(rows[1][f"exam_{column}_{band}"]) <= 1
    assert "load 1_to_1.4: networks" in result.stdout


def test_the_best_weights_of_all_examinations_are_kept(lagoon, tmp_path):
    out = tmp_path / "toy.weights"
    result = train(lagoon, out, "--episodes", "60", "--seed", "2")
    assert result.returncode == 0, result.stderr
    with open(tmp_path / "toy.csv", encoding="utf-8") as file:
        examined = [row for row in csv.DictReader(file) if row["choice"]]
    assert len(examined) == 30
    best = min(examined, key=lambda row: float(row["choice"]))
    assert best is not examined[-1], "choose another seed: the last examination is the best"
    assert f"examination: reward {float(best['exam_reward']):.4f}," in result.stdout


def test_a_killed_training_resumes_to_the_same_weights_and_curve(lagoon, tmp_path):
    whole, killed = tmp_path / "whole.weights", tmp_path / "killed.weights"
    words = ("--episodes", "40")
    assert train(lagoon, whole, *words).returncode == 0
    command = [lagoon.binary, "train", "placement", *SMALL, *words, "--out", str(killed)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            curve = killed.with_suffix(".csv")
            if curve.exists() and curve.read_text().count("\n") > 4:
                process.kill()  # at any point: the files' state must not matter
                break
            time.sleep(0.01)
    result = train(lagoon, killed, *words, "--resume")
    assert result.returncode == 0, result.stderr
    assert killed.read_bytes() == whole.read_bytes()
    assert killed.with_suffix(".csv").read_bytes() == whole.with_suffix(".csv").read_bytes()


def test_the_papers_options_yield_to_options_beside_them(lagoon, tmp_path):
    small = ("--episodes", "1", "--hidden", "8", "--batch", "16", "--steps", "2")
    outs = {}
    for name, words in {
            "paper": ("--paper",),
            "spelled": ("--reward", "capacity", "--own-reward", "--updates", "1"),
            "goodput": ("--paper", "--reward", "goodput"),
            "not_own": ("--paper", "--own-reward=false"),
    }.items():
        out = tmp_path / f"{name}.weights"
        result = lagoon.run("train", "placement", *small, *words, "--out", str(out))
        assert result.returncode == 0, result.stderr
        outs[name] = out.read_bytes()
    assert outs["paper"] == outs["spelled"]
    assert len(set(outs.values())) == 3


def test_a_training_takes_rules(lagoon, tmp_path):
    out = tmp_path / "toy.weights"
    result = train(lagoon, out, "--episodes", "1", "--rules", "gain,scale,huber,noise,uniform,loads")
    assert result.returncode == 0, result.stderr


def test_a_finished_training_resumes_to_the_same_weights(lagoon, tmp_path):
    out = tmp_path / "toy.weights"
    assert train(lagoon, out, "--episodes", "2").returncode == 0
    weights = out.read_bytes()
    result = train(lagoon, out, "--episodes", "2", "--resume")
    assert result.returncode == 0, result.stderr
    assert out.read_bytes() == weights


@pytest.mark.parametrize("words, expected", [
    (("--resume",), "there is no checkpoint"),
    (("--episodes", "0"), "episodes is 0"),
    (("--batch", "0"), "transitions of a batch is 0"),
    (("--hidden", "0,8"), "neurons of a hidden layer is 0"),
    (("--updates", "0"), "updates of a step is 0"),
    (("--rules", "gain,momentum"), "--rules: there is no rule 'momentum' of training"),
])
def test_bad_words_are_named(lagoon, tmp_path, words, expected):
    result = lagoon.run("train", "placement", "--out", str(tmp_path / "toy.weights"), *words)
    assert result.returncode == 1
    assert expected in result.stderr


def test_a_checkpoint_of_other_options_is_refused(lagoon, tmp_path):
    out = tmp_path / "toy.weights"
    assert train(lagoon, out, "--episodes", "1").returncode == 0
    result = train(lagoon, out, "--episodes", "2", "--resume")
    assert result.returncode == 1
    assert "is not a checkpoint of a training with these options" in result.stderr


def test_a_folder_that_does_not_exist_is_named(lagoon, tmp_path):
    result = train(lagoon, tmp_path / "no" / "toy.weights", "--episodes", "1")
    assert result.returncode == 1
    assert "cannot write" in result.stderr


def test_decisions_of_damaged_weights_are_refused(lagoon, tmp_path):
    out = tmp_path / "toy.weights"
    assert train(lagoon, out, "--episodes", "1").returncode == 0
    result = lagoon.run("train", "decisions", str(out), "--count", "2", "--out",
                        str(tmp_path / "decisions"))
    assert result.returncode == 0, result.stderr
    assert len((tmp_path / "decisions").read_text().splitlines()) == 2
    out.write_bytes(out.read_bytes()[:-1])
    result = lagoon.run("train", "decisions", str(out), "--out", str(tmp_path / "decisions"))
    assert result.returncode == 1
    assert "is cut off or damaged" in result.stderr
