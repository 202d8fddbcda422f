"""Runs side by side, with callbacks."""

import concurrent.futures
import queue


class AsyncQueue:
    """Runs an engine in threads of its own, each with a session.

        with ingot.AsyncQueue(engine, sessions=4, callback=print) as jobs:
            for x in inputs:
                jobs.submit(x)

    engine: an ingot.Engine. sessions: how many runs are under way at once. callback: called as callback(result, user) in the
    thread of the run, in the order in which runs end. options: of Engine.session; `threads` is 1 unless given.
    """

    def __init__(self, engine, sessions=2, callback=None, **options):
        options.setdefault("threads", 1)
        self._callback = callback
        self._idle = queue.SimpleQueue()
        for _ in range(sessions):
            self._idle.put(engine.session(**options))
        self._pool = concurrent.futures.ThreadPoolExecutor(sessions, thread_name_prefix="ingot")
        self._futures = set()

    def submit(self, *inputs, user=None, **named):
        """Queues a run. Returns a concurrent.futures.Future of its result, or of what the callback raised."""
        future = self._pool.submit(self._run, inputs, named, user)
        self._futures.add(future)
        future.add_done_callback(self._forget)
        return future

    def _forget(self, future):
        if future.exception() is None:  # failures are kept for wait()
            self._futures.discard(future)

    def _run(self, inputs, named, user):
        session = self._idle.get()
        try:
            result = session(*inputs, **named)
        finally:
            self._idle.put(session)
        if self._callback:
            self._callback(result, user)
        return result

    def wait(self):
        """Waits for all runs; raises the first failure among them."""
        futures = list(self._futures)
        concurrent.futures.wait(futures)
        self._futures.difference_update(futures)
        for future in futures:
            future.result()

    def close(self):
        """Waits for all runs, and ends the threads."""
        self._pool.shutdown()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.wait()
        finally:
            self.close()
