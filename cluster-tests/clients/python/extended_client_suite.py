"""The SQS extended client for Python: large bodies go to an S3-compatible store, pointers to us.

What it asks of the server: an attribute of its own passes unchanged, MessageAttributeNames select
it, and a receipt handle survives having S3's marks put around it and taken off again.
"""

import json
import os
import unittest
import uuid

from s3_double import S3Double

store = S3Double()
os.environ["AWS_ENDPOINT_URL_S3"] = store.endpoint
# Plain bodies: the double does not read chunks with checksums behind them.
os.environ["AWS_REQUEST_CHECKSUM_CALCULATION"] = "when_required"

import botocore.session  # noqa: E402
from sqs_extended_client import SQSExtendedClientSession  # noqa: E402

ENDPOINT = os.environ["HIKYAKU_ENDPOINT"]
LARGE = "\u00e9" * 200_000

# Not boto3's: importing the extended client changes every session of boto3.
plain = botocore.session.get_session().create_client("sqs", endpoint_url=ENDPOINT)


def tearDownModule():
    store.close()


class LargeBodies(unittest.TestCase):
    def setUp(self):
        self.sqs = SQSExtendedClientSession().client("sqs", endpoint_url=ENDPOINT)
        self.sqs.large_payload_support = "bucket"
        self.sqs.delete_payload_from_s3 = True
        self.url = self.sqs.create_queue(QueueName="extended-" + uuid.uuid4().hex)["QueueUrl"]
        store.objects.clear()

    def receive(self):
        return self.sqs.receive_message(QueueUrl=self.url, WaitTimeSeconds=5,
                                        MaxNumberOfMessages=10, MessageAttributeNames=["job"])

    def test_a_large_body_goes_round_by_way_of_the_store(self):
        job = {"DataType": "String", "StringValue": "42"}
        self.sqs.send_message(QueueUrl=self.url, MessageBody=LARGE, MessageAttributes={"job": job})
        self.assertEqual(len(store.objects), 1)

        [message] = self.receive()["Messages"]
        self.assertEqual(message["Body"], LARGE)
        self.assertEqual(message["MessageAttributes"], {"job": job})
        self.assertIn("-..s3BucketName..-", message["ReceiptHandle"])

        self.sqs.change_message_visibility(
            QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
        [message] = self.receive()["Messages"]
        self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        self.assertEqual(store.objects, {})
        self.assertNotIn("Messages", plain.receive_message(QueueUrl=self.url))

    def test_what_is_stored_here_is_a_pointer_that_others_can_read(self):
        self.sqs.send_message(QueueUrl=self.url, MessageBody=LARGE)
        answer = plain.receive_message(QueueUrl=self.url, WaitTimeSeconds=5,
                                       MessageAttributeNames=["All"])
        [message] = answer["Messages"]
        name, pointer = json.loads(message["Body"])
        self.assertEqual(name, "software.amazon.payloadoffloading.PayloadS3Pointer")
        self.assertIn("/%(s3BucketName)s/%(s3Key)s" % pointer, store.objects)
        size = message["MessageAttributes"]["ExtendedPayloadSize"]
        self.assertEqual(size, {"DataType": "Number", "StringValue": str(len(LARGE.encode()))})

    def test_a_small_body_stays_here(self):
        self.sqs.send_message(QueueUrl=self.url, MessageBody="small")
        self.assertEqual(store.objects, {})
        self.assertEqual(self.receive()["Messages"][0]["Body"], "small")

    def test_large_and_small_bodies_share_a_batch(self):
        sent = self.sqs.send_message_batch(QueueUrl=self.url, Entries=[
            {"Id": "large", "MessageBody": LARGE}, {"Id": "small", "MessageBody": "small"}])
        self.assertEqual(len(sent["Successful"]), 2)
        messages = []
        while len(messages) < 2:
            messages += self.receive()["Messages"]
        self.assertEqual({message["Body"] for message in messages}, {LARGE, "small"})
        deleted = self.sqs.delete_message_batch(QueueUrl=self.url, Entries=[
            {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
            for number, message in enumerate(messages)])
        self.assertEqual(len(deleted["Successful"]), 2)
        self.assertEqual(store.objects, {})


if __name__ == "__main__":
    unittest.main(verbosity=int(os.environ.get("VERBOSITY", "1")))
