"""From text to tokens and back: the tokenizer of a model's repository, its chat template, and text that grows token by
token."""

import json
import pathlib
import time

import jinja2
import jinja2.sandbox
import tokenizers

UNFINISHED = "\ufffd"  # what a tokenizer writes for bytes that are no character, or not yet
MOST_PENDING = 64  # tokens whose text may wait for the rest of a character


class TokenizerError(Exception):
    """The files of a tokenizer cannot be used."""


class Tokenizer:
    """tokenizer.json of a folder, with the special tokens and the chat template of tokenizer_config.json and the stop
    tokens of generation_config.json, as repositories of models have them. Any thread."""

    def __init__(self, folder):
        folder = pathlib.Path(folder)
        self._tokenizer = _load(folder / "tokenizer.json")
        config = _read(folder / "tokenizer_config.json")
        self._special = {name: value.get("content", "") if isinstance(value, dict) else value
                         for name, value in config.items() if name.endswith("_token") and value}
        try:
            self._template = _compile(_template(folder, config))
        except (jinja2.TemplateError, TypeError, KeyError, AttributeError, OSError, ValueError) as error:
            raise TokenizerError(f"the chat template of '{folder}' cannot be read: {_one_line(error)}") from error
        ids = _read(folder / "generation_config.json").get("eos_token_id") or []
        ids = list(ids) if isinstance(ids, list) else [ids]
        if not all(isinstance(token, int) for token in ids):
            raise TokenizerError(f"eos_token_id in '{folder / 'generation_config.json'}' is neither a token nor a list")
        ids.append(self._tokenizer.token_to_id(str(self._special.get("eos_token", ""))))
        self.stop_tokens = sorted({token for token in ids if token is not None})

    def encode(self, text):
        return self._tokenizer.encode(text).ids

    def encode_chat(self, messages):
        """The tokens of the prompt that the model's template makes of the messages. ValueError: it makes none."""
        if self._template is None:
            raise ValueError("the model has no chat template: use /v1/completions")
        try:
            text = self._template.render(messages=messages, add_generation_prompt=True, **self._special)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise ValueError(f"the model's chat template does not take the messages: {error}") from error
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self._tokenizer.decode(ids, skip_special_tokens=True)


def _one_line(error):
    return " ".join(str(error).split())


def _load(path):
    if not path.is_file():
        raise TokenizerError(f"there is no file '{path}'")
    try:
        return tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises this class
        raise TokenizerError(f"'{path}' is no tokenizer: {_one_line(error)}") from error


def _read(path):
    """The object in a file of JSON; empty if there is no file."""
    try:
        config = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise TokenizerError(f"'{path}' is no JSON: {_one_line(error)}") from error
    if not isinstance(config, dict):
        raise TokenizerError(f"'{path}' has no JSON object")
    return config


def _template(folder, config):
    file = folder / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        template = next((entry["template"] for entry in template if entry.get("name") == "default"), None)
    return template


def _compile(template):
    if template is None:
        return None
    def refuse(message):
        raise jinja2.TemplateError(message)
    # What Hugging Face's templates are written for.
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                               extensions=["jinja2.ext.loopcontrols"])
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = time.strftime
    return environment.from_string(template)


class GrowingText:
    """The text of tokens that come one by one. Never gives half a character, nor text that may become a stop string."""

    def __init__(self, tokenizer, stops=()):
        self._tokenizer = tokenizer
        self._stops = [stop for stop in stops if stop]
        self._ids = []
        self._window = 0  # the first token that is decoded again: what comes before is as it was
        self._read = 0  # the tokens whose text was given as a whole
        self._given = 0  # characters of the window's text that were given
        self._held = ""  # may be the beginning of a stop string
        self.stopped = False

    def add(self, token):
        """The text that is certain now."""
        self._ids.append(token)
        text = self._tokenizer.decode(self._ids[self._window:])
        if text.endswith(UNFINISHED) and len(self._ids) - self._read <= MOST_PENDING:
            return self._pass(self._take(text.rstrip(UNFINISHED)))
        new = self._take(text)
        # Tokens of the window's beginning may decide how the next ones are written (spaces), so one step is kept.
        self._window, self._read = self._read, len(self._ids)
        self._given = len(self._tokenizer.decode(self._ids[self._window:]))
        return self._pass(new)

    def finish(self):
        """What was held back."""
        rest = self._pass(self._take(self._tokenizer.decode(self._ids[self._window:])))
        held, self._held = self._held, ""
        return rest if self.stopped else rest + held

    def _take(self, text):
        new = text[self._given:]
        self._given = max(self._given, len(text))
        return new

    def _pass(self, new):
        if self.stopped:
            return ""
        text = self._held + new
        found = [at for at in (text.find(stop) for stop in self._stops) if at >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[:min(found)]
        keep = max((size for stop in self._stops for size in range(min(len(stop) - 1, len(text)), 0, -1)
                    if text.endswith(stop[:size])), default=0)
        self._held = text[len(text) - keep:]
        return text[:len(text) - keep]
