"""Lagoon as an execution provider for ONNX Runtime 1.23 and newer.

    import lagoon_ort
    session = lagoon_ort.session("policy.onnx", {"class": "real-time"})
"""

import os
import pathlib
import threading
import warnings

__all__ = ["ep_name", "library_path", "options", "register", "session"]

_registering = threading.Lock()


def library_path() -> str:
    """The plug-in, for onnxruntime.register_execution_provider_library(). LAGOON_ORT_LIBRARY names another file."""
    other = os.environ.get("LAGOON_ORT_LIBRARY")
    return other or str(pathlib.Path(__file__).resolve().parent / "native" / "liblagoon_ort.so")


def ep_name() -> str:
    """The name by which sessions choose the provider."""
    return "LagoonExecutionProvider"


def register() -> list:
    """Registers the library, if this process has not yet, and returns its devices for
    SessionOptions.add_provider_for_devices(): one. Any thread."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    if not hasattr(onnxruntime, "register_execution_provider_library"):
        raise RuntimeError(f"lagoon-ort needs onnxruntime 1.23 or newer, this is {onnxruntime.__version__}")
    with _registering:
        devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == ep_name()]
        if not devices:
            onnxruntime.register_execution_provider_library("lagoon", library_path())
            devices = [device for device in onnxruntime.get_ep_devices() if device.ep_name == ep_name()]
    return devices[:1]


def options(settings=None):
    """onnxruntime.SessionOptions of a session that runs on Lagoon, with settings of docs/guide/in-process.md, such as
    {"class": "real-time", "deadline_us": "2000"}. ONNX Runtime's own threads, which would compete for the cores, are
    off: nodes that Lagoon does not have run on the calling thread."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    devices = register()
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = 1
    made.add_session_config_entry("session.intra_op.allow_spinning", "0")
    made.add_provider_for_devices(devices, {key: str(value) for key, value in (settings or {}).items()})
    return made


def session(path_or_bytes, settings=None, sess_options=None, **words):
    """onnxruntime.InferenceSession with options(settings), or with `sess_options`, which come from options(). An error
    of the load is raised. (InferenceSession itself prints the error and makes a session without Lagoon, unless it
    gets enable_fallback=False, as here.) With enable_fallback=True a session without Lagoon is a warning."""
    import onnxruntime  # pylint: disable=import-outside-toplevel

    if settings is not None and sess_options is not None:
        raise ValueError("give settings or sess_options, not both: options(settings) makes sess_options")
    words.setdefault("enable_fallback", False)
    made = onnxruntime.InferenceSession(path_or_bytes, sess_options or options(settings), **words)
    if ep_name() not in made.get_providers():
        warnings.warn(f"the session runs without {ep_name()}, on {made.get_providers()}: the lines above it say why",
                      RuntimeWarning, stacklevel=2)
    return made
