"""Celery over a running server: a worker process, its retries, its delays and its death."""

import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from datetime import datetime, timedelta, timezone

os.environ["RESULTS"] = tempfile.mkdtemp(prefix="results-")

from celery import chain, group  # noqa: E402
import celery_tasks as tasks  # noqa: E402

PATIENCE = 40

workers = []


def start_worker():
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "--app", "celery_tasks", "worker", "--pool", "prefork",
         "--concurrency", "2", "--without-gossip", "--without-mingle", "--loglevel", "WARNING"],
        cwd=os.path.dirname(os.path.abspath(__file__)),
        # A group of its own: the pool's processes end with it.
        start_new_session=True,
    )
    workers.append(worker)
    return worker


def kill(worker):
    os.killpg(worker.pid, signal.SIGKILL)
    worker.wait()


def give_up(*_):
    """The suite took too long: ends what it started, which no signal to the suite reaches."""
    for worker in workers:
        if worker.returncode is None:
            os.killpg(worker.pid, signal.SIGKILL)
    os._exit(1)


class Tasks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.worker = start_worker()

    @classmethod
    def tearDownClass(cls):
        cls.worker.terminate()
        try:
            status = cls.worker.wait(timeout=20)
        except subprocess.TimeoutExpired:
            kill(cls.worker)
            raise
        if status != 0:
            raise AssertionError(f"the worker ended with status {status}")

    def test_a_task_is_done(self):
        self.assertEqual(tasks.add.delay(2, 3).get(timeout=PATIENCE), 5)

    def test_many_tasks_are_all_done(self):
        answer = group(tasks.add.s(number, number) for number in range(30)).apply_async()
        self.assertEqual(answer.get(timeout=PATIENCE), [2 * number for number in range(30)])

    def test_a_chain_hands_its_results_on(self):
        answer = chain(tasks.add.s(1, 2), tasks.add.s(10), tasks.add.s(100)).apply_async()
        self.assertEqual(answer.get(timeout=PATIENCE), 113)

    def test_a_task_is_tried_until_it_succeeds(self):
        answer = tasks.succeeds_at_the_third_try.delay()
        self.assertEqual(answer.get(timeout=PATIENCE), 2)

    def test_a_task_that_never_succeeds_fails_as_itself(self):
        with self.assertRaisesRegex(ValueError, "always"):
            tasks.never_succeeds.delay().get(timeout=PATIENCE)

    def test_a_countdown_is_waited_for(self):
        due = time.time() + 2
        began = tasks.now.apply_async(countdown=2).get(timeout=PATIENCE)
        self.assertGreaterEqual(began, due)

    def test_an_eta_is_waited_for(self):
        due = datetime.now(timezone.utc) + timedelta(seconds=2)
        began = tasks.now.apply_async(eta=due).get(timeout=PATIENCE)
        self.assertGreaterEqual(began, due.timestamp())


class DeadWorkers(unittest.TestCase):
    def test_the_task_of_a_killed_worker_is_done_by_the_next(self):
        marker = os.path.join(os.environ["RESULTS"], "begun")
        worker = start_worker()
        try:
            answer = tasks.survives_its_worker.delay(marker)
            deadline = time.monotonic() + PATIENCE
            while not os.path.exists(marker) and time.monotonic() < deadline:
                time.sleep(0.1)
            self.assertTrue(os.path.exists(marker), "the first worker never began")
            kill(worker)
            worker = start_worker()
            self.assertEqual(answer.get(timeout=PATIENCE), "again")
        finally:
            kill(worker)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, give_up)
    unittest.main(verbosity=int(os.environ.get("VERBOSITY", "1")))
