"""`lagoon train placement`: a toy training, its files, and going on after an interruption."""

import csv

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
