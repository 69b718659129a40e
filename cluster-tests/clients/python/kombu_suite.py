"""kombu's SQS transport over a running server, without Celery: queues, acknowledgement, requeue."""

import os
import time
import unittest
import uuid
from urllib.parse import quote, urlsplit

from kombu import Connection, Consumer
from kombu.asynchronous import Hub, set_event_loop

ENDPOINT = urlsplit(os.environ["HIKYAKU_ENDPOINT"])
KEY = os.environ["AWS_ACCESS_KEY_ID"]
SECRET = quote(os.environ["AWS_SECRET_ACCESS_KEY"], safe="")


def connect(**options):
    return Connection(
        f"sqs://{KEY}:{SECRET}@{ENDPOINT.netloc}//",
        transport_options={"is_secure": False, "region": "us-east-1", "visibility_timeout": 3,
                           "wait_time_seconds": 5, **options},
    )


class SimpleQueues(unittest.TestCase):
    def setUp(self):
        self.connection = connect()
        self.queue = self.connection.SimpleQueue("kombu-" + uuid.uuid4().hex)

    def tearDown(self):
        self.queue.close()
        self.connection.close()

    def test_a_message_comes_as_it_was_put(self):
        sent = {"text": "\u00e9 \u6f22 <&>\r\n", "list": [1, 2.5, None]}
        self.queue.put(sent, headers={"trace": "abc"})
        message = self.queue.get(timeout=10)
        self.assertEqual(message.payload, sent)
        self.assertEqual(message.headers["trace"], "abc")
        message.ack()
        with self.assertRaises(self.queue.Empty):
            self.queue.get(timeout=1)

    def test_many_messages_all_come(self):
        for number in range(25):
            self.queue.put(number)
        received = set()
        for _ in range(25):
            message = self.queue.get(timeout=10)
            received.add(message.payload)
            message.ack()
        self.assertEqual(received, set(range(25)))

    def test_an_unacknowledged_message_comes_again(self):
        self.queue.put("again")
        first = self.queue.get(timeout=10)
        second = self.queue.get(timeout=10)
        self.assertEqual(second.payload, first.payload)
        self.assertNotEqual(second.delivery_tag, first.delivery_tag)
        second.ack()
        # Deleting by the older receipt handle is no error on a standard queue.
        first.ack()

    def test_a_size_is_told_and_a_queue_is_cleared(self):
        for number in range(3):
            self.queue.put(number)
        self.assertEqual(self.queue.qsize(), 3)
        self.queue.clear()
        self.assertEqual(self.queue.qsize(), 0)


class PredefinedQueues(unittest.TestCase):
    def test_a_queue_is_used_by_its_url(self):
        name = "kombu-" + uuid.uuid4().hex
        with connect() as connection:
            url = connection.default_channel.sqs().create_queue(QueueName=name)["QueueUrl"]
        with connect(predefined_queues={name: {"url": url}}) as connection:
            queue = connection.SimpleQueue(name)
            queue.put("by url")
            message = queue.get(timeout=10)
            self.assertEqual(message.payload, "by url")
            message.ack()
            queue.close()


class EventLoop(unittest.TestCase):
    """The asynchronous path, by which a Celery worker receives: kombu's own client over pycurl."""

    def test_messages_come_through_the_event_loop(self):
        name = "kombu-" + uuid.uuid4().hex
        received = []

        def take(body, message):
            received.append(body)
            message.ack()

        hub = Hub()
        self.addCleanup(hub.close)
        set_event_loop(hub)
        with connect() as connection:
            queue = connection.SimpleQueue(name)
            for number in range(12):
                queue.put(number)
            connection.register_with_event_loop(hub)
            with Consumer(connection.channel(), queues=[queue.queue], callbacks=[take]):
                deadline = time.monotonic() + 20
                while len(received) < 12 and time.monotonic() < deadline:
                    hub.run_once()
            self.assertEqual(sorted(received), list(range(12)))


if __name__ == "__main__":
    unittest.main(verbosity=int(os.environ.get("VERBOSITY", "1")))
