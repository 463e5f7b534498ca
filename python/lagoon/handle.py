"""Handles of the library that threads share, close and give away."""

import os
import sys
import threading
import weakref

from lagoon.liblagoon import Failed


class Handle:
    """Owns a handle of the library. Each call that gets the handle is a use, and so is each child: a model of a device, a run of
    a model. close() lets no more uses begin and waits for those of other threads; the last use to end frees the handle, so that a
    call never has a handle that is freed. Closed at the latest when it is collected."""

    _CLOSED = ""  # what to say of one that is closed
    _SHARE = "any thread may use this one"  # what to do instead of a copy
    _OWNER = None  # the use that ends with close(), and that of each child: no thread
    _handle = None

    def __init__(self, handle, parent=None):
        self._parent = None
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a collection within may free a child
        self._changed = threading.Condition(self._lock)
        self._uses = [self._OWNER]  # the thread of each one
        self._children = weakref.WeakSet()
        self._closed = False
        self._owned = True  # close() has not ended its use
        if parent is not None:
            try:
                self._join(parent)
            except Failed:
                self._free_handle(handle)
                raise
        self._handle = handle

    def __del__(self, is_finalizing=sys.is_finalizing):
        # An interpreter that ends has stopped its threads. The library closes devices when the process exits.
        if self._handle is not None and not is_finalizing():
            self.close()

    def __reduce_ex__(self, _):
        raise TypeError(f"a {type(self).__name__} cannot be copied or pickled, as it owns memory of the library: {self._SHARE}")

    def close(self):
        """Cancels the runs, waits for other threads' calls to end, and frees. Twice does nothing."""
        if os.getpid() != self._pid:
            return  # a forked child has no threads that could end the uses
        self._shut()
        for child in self._living():
            child.close()
        self._await_others()
        with self._lock:
            owned, self._owned = self._owned, False
        if owned:
            self._leave(self._OWNER)

    def _shut(self):
        """No more uses begin, and runs are cancelled."""
        with self._lock:
            self._closed = True
        for child in self._living():
            child._shut()
        self._cancel_handle()

    def _await_others(self):
        others = {self._OWNER, threading.get_ident()}
        with self._lock:
            while any(user not in others for user in self._uses):
                self._changed.wait(0.01)
                self._cancel_handle()  # a run may have begun behind the call before

    def _living(self):
        with self._lock:
            return list(self._children)

    def _join(self, parent):
        """From now on this is a child of `parent`."""
        with parent._lock:
            parent._enter(self._OWNER)
            parent._children.add(self)
        self._parent = parent

    def _part(self):
        """From now on this is no child. The parent before must free it before its own handle."""
        parent, self._parent = self._parent, None
        with parent._lock:
            parent._children.discard(self)
            parent._leave(self._OWNER)

    def _enter(self, user):
        """The handle, which stays until _leave(user)."""
        with self._lock:
            if self._closed:
                raise Failed("unavailable", self._CLOSED)
            self._uses.append(user)
            return self._handle

    def _leave(self, user):
        with self._lock:
            self._uses.remove(user)
            if self._closed:
                self._changed.notify_all()
            if self._uses:
                return
            handle, self._handle = self._handle, None
        self._free_handle(handle)
        if self._parent is not None:
            self._parent._leave(self._OWNER)

    def _use(self):
        return Use(self)

    def _cancel_handle(self):
        pass

    def _free_handle(self, handle):
        raise NotImplementedError


class Use:
    """A use by this thread: `with owner._use() as handle`."""

    __slots__ = ("_owner",)

    def __init__(self, owner):
        self._owner = owner

    def __enter__(self):
        return self._owner._enter(threading.get_ident())

    def __exit__(self, *_):
        self._owner._leave(threading.get_ident())
