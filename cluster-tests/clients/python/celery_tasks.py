"""The Celery application of celery_suite.py: imported by the suite and by its worker."""

import os
import time
from urllib.parse import quote, urlsplit

from celery import Celery

endpoint = urlsplit(os.environ["HIKYAKU_ENDPOINT"])
key = os.environ["AWS_ACCESS_KEY_ID"]
secret = quote(os.environ["AWS_SECRET_ACCESS_KEY"], safe="")

app = Celery(
    "tasks",
    broker=f"sqs://{key}:{secret}@{endpoint.netloc}//",
    backend="file://" + os.environ["RESULTS"],
)
app.conf.update(
    broker_transport_options={
        "is_secure": False,
        "region": "us-east-1",
        "queue_name_prefix": "celery-",
        "visibility_timeout": 5,
        "wait_time_seconds": 5,
    },
    task_default_queue="work",
    # SQS has no broadcast, which remote control needs.
    worker_enable_remote_control=False,
    worker_prefetch_multiplier=2,
)


@app.task
def add(a, b):
    return a + b


@app.task(bind=True, max_retries=3)
def succeeds_at_the_third_try(self):
    if self.request.retries < 2:
        raise self.retry(countdown=1)
    return self.request.retries


@app.task(bind=True, max_retries=1, default_retry_delay=0)
def never_succeeds(self):
    try:
        raise ValueError("always")
    except ValueError as error:
        raise self.retry(exc=error)


@app.task
def now():
    return time.time()


@app.task(bind=True, acks_late=True)
def survives_its_worker(self, marker):
    """Stays at work for ever at the first delivery; the worker is killed meanwhile."""
    if not os.path.exists(marker):
        open(marker, "x").close()
        time.sleep(600)
    return "again"
