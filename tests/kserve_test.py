"""The manifests in examples/kserve: KServe's own models take them, and the server takes their words."""

import importlib
import importlib.util
import re
import sys
import types

import pytest
import yaml
from conftest import DIGITS, ROOT
from server_process import ServerProcess

EXAMPLES = ROOT / "examples" / "kserve"


@pytest.fixture(scope="module")
def models():
    """Finds a class of the schema by its name, such as V1alpha1ServingRuntime or V1Container."""
    # Without the __init__.py of both, which import KServe's server, Google's client, and all that these need.
    for name in ("kserve", "kubernetes"):
        spec = importlib.util.find_spec(name)
        if spec is None:
            pytest.skip(f"{name} is not installed: see requirements-no-deps.txt")
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = list(spec.submodule_search_locations)

    def find(name):
        module = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
        for home in ("kserve.models", "kubernetes.client.models"):
            if importlib.util.find_spec(f"{home}.{module}"):
                return getattr(importlib.import_module(f"{home}.{module}"), name)
        raise AssertionError(f"no schema for {name}")

    yield find
    del sys.modules["kserve"], sys.modules["kubernetes"]


def build(models, kind, value, where=""):
    """`value` as an object of the schema `kind`. AssertionError names the field that the schema does not have."""
    if found := re.fullmatch(r"list\[(.*)\]", kind):
        assert isinstance(value, list), f"{where} is {value!r}, not a list"
        return [build(models, found.group(1), entry, f"{where}[{index}]") for index, entry in enumerate(value)]
    if found := re.fullmatch(r"dict\((\w+), (.*)\)", kind):
        assert isinstance(value, dict), f"{where} is {value!r}, not a map"
        return {key: build(models, found.group(2), entry, f"{where}.{key}") for key, entry in value.items()}
    if kind == "object":
        return value
    if kind in ("str", "bool", "int"):
        assert type(value).__name__ == kind, f"{where} is {value!r}, not of type {kind}"
        return value
    schema = models(kind)
    fields = {wire: name for name, wire in schema.attribute_map.items()}
    unknown = set(value) - set(fields)
    assert not unknown, f"{where}: {kind} has no field {', '.join(sorted(unknown))}"
    return schema(**{fields[key]: build(models, schema.openapi_types[fields[key]], entry, f"{where}.{key}")
                     for key, entry in value.items()})


@pytest.mark.parametrize("file, kind", [("serving-runtime.yaml", "V1alpha1ServingRuntime"),
                                        ("inference-service.yaml", "V1beta1InferenceService")])
def test_the_schema_takes_the_manifest(models, file, kind):
    manifest = yaml.safe_load((EXAMPLES / file).read_text())
    group, version = manifest["apiVersion"].split("/")
    assert group == "serving.kserve.io" and kind.lower().startswith(version)
    assert kind.endswith(manifest["kind"])
    build(models, kind, manifest)


@pytest.mark.parametrize("change, message", [
    ({"multiModle": False}, "has no field multiModle"), ({"multiModel": "no"}, "multiModel is 'no', not of type bool"),
    ({"containers": None}, "containers is None, not a list")])
def test_the_schema_refuses_a_wrong_manifest(models, change, message):
    manifest = yaml.safe_load((EXAMPLES / "serving-runtime.yaml").read_text())
    manifest["spec"].update(change)
    with pytest.raises(AssertionError, match=message):
        build(models, "V1alpha1ServingRuntime", manifest)


def test_runtime_and_service_belong_together():
    runtime = yaml.safe_load((EXAMPLES / "serving-runtime.yaml").read_text())
    service = yaml.safe_load((EXAMPLES / "inference-service.yaml").read_text())
    model = service["spec"]["predictor"]["model"]
    assert model["runtime"] == runtime["metadata"]["name"]
    assert model["modelFormat"]["name"] in [entry["name"] for entry in runtime["spec"]["supportedModelFormats"]]
    assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]


def test_the_server_takes_the_words_of_the_manifest(lagoon, tmp_path):
    (tmp_path / "digits").symlink_to(DIGITS)
    container = yaml.safe_load((EXAMPLES / "serving-runtime.yaml").read_text())["spec"]["containers"][0]
    command, *words = container["args"]
    assert command == "serve"
    replaced = dict(word.split("=") for word in words)
    assert replaced.pop("--models") == "/mnt/models"
    for flag in ("--address", "--http-port", "--grpc-port", "--metrics-port"):
        replaced.pop(flag)  # this test's own
    server = ServerProcess(lagoon, tmp_path, *(f"{flag}={value}" for flag, value in replaced.items()))
    try:
        server.wait_ready()
        probe = container["readinessProbe"]["httpGet"]["path"]
        assert server.http()._get(probe.lstrip("/"), None, None).status_code == 200  # pylint: disable=protected-access
    finally:
        server.close()
