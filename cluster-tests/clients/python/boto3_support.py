"""What the stories of boto3 share: one client, fresh queues, and what a refusal looks like.

Nothing is retried: an error is what the server said the first time.
"""

import os
import unittest
import uuid

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

ENDPOINT = os.environ["HIKYAKU_ENDPOINT"]


def connect(config=Config(), **credentials):
    once = config.merge(Config(retries={"total_max_attempts": 1}, read_timeout=60))
    return boto3.client("sqs", endpoint_url=ENDPOINT, config=once, **credentials)


sqs = connect()


def fresh_name(suffix=""):
    return "boto3-" + uuid.uuid4().hex + suffix


def fresh_queue(**attributes):
    return sqs.create_queue(QueueName=fresh_name(), Attributes=attributes)["QueueUrl"]


def fresh_fifo_queue(**attributes):
    attributes = {"FifoQueue": "true", **attributes}
    return sqs.create_queue(QueueName=fresh_name(".fifo"), Attributes=attributes)["QueueUrl"]


def send(url, body, **rest):
    return sqs.send_message(QueueUrl=url, MessageBody=body, **rest)


def receive(url, count=10, **rest):
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=count, **rest)
    return answer.get("Messages", [])


def attributes_of(url, *names):
    answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))
    return answer.get("Attributes", {})


class Suite(unittest.TestCase):
    def refused(self, code, status, call, **arguments):
        """Asserts the error's code and HTTP status, and returns it."""
        with self.assertRaises(ClientError) as caught:
            call(**arguments)
        error = caught.exception
        self.assertEqual(error.response["Error"]["Code"], code)
        self.assertEqual(error.response["ResponseMetadata"]["HTTPStatusCode"], status)
        self.assertTrue(error.response["ResponseMetadata"]["RequestId"])
        return error
