"""boto3 against a running server: what becomes of messages, in either dialect."""

import hashlib
import struct
import threading
import time

from boto3_support import (
    Suite, attributes_of, connect, fresh_fifo_queue, fresh_name, fresh_queue, receive, send, sqs)

TRACE = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def receive_all(url, count):
    """Receives until COUNT messages came: a standard queue may hand out fewer at a time."""
    messages = []
    deadline = time.monotonic() + 20
    while len(messages) < count and time.monotonic() < deadline:
        messages += receive(url, WaitTimeSeconds=2)
    return messages


def md5(text):
    return hashlib.md5(text.encode()).hexdigest()


def md5_of_attributes(attributes):
    """The digest AWS documents for message attributes; boto3 itself does not check it."""
    digest = hashlib.md5()

    def add(value):
        digest.update(struct.pack(">I", len(value)) + value)

    for name, attribute in sorted(attributes.items()):
        add(name.encode())
        add(attribute["DataType"].encode())
        if attribute["DataType"].startswith("Binary"):
            digest.update(b"\x02")
            add(attribute["BinaryValue"])
        else:
            digest.update(b"\x01")
            add(attribute["StringValue"].encode())
    return digest.hexdigest()


class Messages(Suite):
    def test_body_survives_the_round_trip(self):
        url = fresh_queue()
        body = 'CR LF\r\n "quoted" <tag> & \u00e9 \u6f22 \U0001f600 '
        sent = send(url, body)
        self.assertEqual(sent["MD5OfMessageBody"], md5(body))
        self.assertNotIn("SequenceNumber", sent)
        [message] = receive(url, WaitTimeSeconds=5)
        self.assertEqual(message["Body"], body)
        self.assertEqual(message["MD5OfBody"], md5(body))
        self.assertEqual(message["MessageId"], sent["MessageId"])
        self.assertNotIn("Attributes", message)

        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        self.assertEqual(attributes_of(url, "ApproximateNumberOfMessagesNotVisible"),
                         {"ApproximateNumberOfMessagesNotVisible": "0"})

    def test_attributes_and_their_digests_come_back(self):
        url = fresh_queue()
        attributes = {
            "text": {"DataType": "String", "StringValue": "x <&> \u00e9"},
            "text.custom": {"DataType": "String.uuid", "StringValue": "1"},
            "number": {"DataType": "Number", "StringValue": "1493147359900"},
            "bytes": {"DataType": "Binary", "BinaryValue": b"\x00\xff\r\n"},
        }
        trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": TRACE}}
        sent = send(url, "m", MessageAttributes=attributes, MessageSystemAttributes=trace)
        self.assertEqual(sent["MD5OfMessageAttributes"], md5_of_attributes(attributes))
        self.assertEqual(sent["MD5OfMessageSystemAttributes"], md5_of_attributes(trace))

        [message] = receive(url, MessageAttributeNames=["All"], AttributeNames=["All"],
                            WaitTimeSeconds=5)
        self.assertEqual(message["MessageAttributes"], attributes)
        self.assertEqual(message["MD5OfMessageAttributes"], md5_of_attributes(attributes))
        self.assertEqual(message["Attributes"]["AWSTraceHeader"], TRACE)
        self.assertEqual(message["Attributes"]["ApproximateReceiveCount"], "1")
        self.assertLessEqual({"SenderId", "SentTimestamp", "ApproximateFirstReceiveTimestamp"},
                             set(message["Attributes"]))

    def test_only_the_attributes_asked_for_come_back(self):
        url = fresh_queue(VisibilityTimeout="0")
        attributes = {name: {"DataType": "String", "StringValue": name}
                      for name in ["job.id", "job.kind", "other"]}
        send(url, "m", MessageAttributes=attributes)
        [message] = receive(url, MessageAttributeNames=["job.*", "absent"], WaitTimeSeconds=5)
        asked = {name: attributes[name] for name in ["job.id", "job.kind"]}
        self.assertEqual(message["MessageAttributes"], asked)
        self.assertEqual(message["MD5OfMessageAttributes"], md5_of_attributes(asked))
        [message] = receive(url, WaitTimeSeconds=5)
        self.assertNotIn("MessageAttributes", message)
        self.assertNotIn("MD5OfMessageAttributes", message)

    def test_the_largest_message_passes_and_the_next_does_not(self):
        url = fresh_queue()
        send(url, "x" * 1048576)
        [message] = receive(url, WaitTimeSeconds=5)
        self.assertEqual(len(message["Body"]), 1048576)
        self.refused("InvalidParameterValue", 400, send, url=url, body="x" * 1048577)

    def test_bad_sends_and_receives_are_refused(self):
        url = fresh_queue()
        self.refused("InvalidMessageContents", 400, send, url=url, body="\uffff")
        self.refused("InvalidParameterValue", 400, send, url=url, body="m", DelaySeconds=901)
        self.refused("InvalidParameterValue", 400, send, url=url, body="m", MessageAttributes={
            "AWS.reserved": {"DataType": "String", "StringValue": "x"}})
        self.refused("InvalidParameterValue", 400, receive, url=url, count=11)
        self.refused("InvalidParameterValue", 400, receive, url=url, WaitTimeSeconds=21)

    def test_garbage_for_a_receipt_handle_is_the_typed_exception(self):
        url = fresh_queue()
        garbage = {"QueueUrl": url, "ReceiptHandle": "garbage"}
        with self.assertRaises(sqs.exceptions.ReceiptHandleIsInvalid):
            sqs.delete_message(**garbage)
        self.refused("ReceiptHandleIsInvalid", 404, sqs.change_message_visibility,
                     VisibilityTimeout=1, **garbage)


class Batches(Suite):
    def test_ten_messages_go_through_in_batches(self):
        url = fresh_queue()
        bodies = {f"id-{number}": f"body {number}" for number in range(10)}
        sent = sqs.send_message_batch(QueueUrl=url, Entries=[
            {"Id": id, "MessageBody": body} for id, body in bodies.items()])
        self.assertNotIn("Failed", sent)
        for entry in sent["Successful"]:
            self.assertEqual(entry["MD5OfMessageBody"], md5(bodies[entry["Id"]]))

        messages = receive_all(url, 10)
        self.assertEqual({message["Body"] for message in messages}, set(bodies.values()))
        handles = [{"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                   for number, message in enumerate(messages)]
        changed = sqs.change_message_visibility_batch(QueueUrl=url, Entries=[
            {**handle, "VisibilityTimeout": 60} for handle in handles])
        self.assertEqual(len(changed["Successful"]), 10)
        deleted = sqs.delete_message_batch(QueueUrl=url, Entries=handles)
        self.assertEqual([entry["Id"] for entry in deleted["Successful"]],
                         [str(number) for number in range(10)])

    def test_a_bad_entry_fails_alone(self):
        url = fresh_queue()
        sent = sqs.send_message_batch(QueueUrl=url, Entries=[
            {"Id": "good", "MessageBody": "m"},
            {"Id": "bad", "MessageBody": "m", "DelaySeconds": 901}])
        self.assertEqual([entry["Id"] for entry in sent["Successful"]], ["good"])
        [failed] = sent["Failed"]
        self.assertEqual((failed["Id"], failed["Code"], failed["SenderFault"]),
                         ("bad", "InvalidParameterValue", True))

        deleted = sqs.delete_message_batch(QueueUrl=url, Entries=[
            {"Id": "garbage", "ReceiptHandle": "garbage"}])
        self.assertEqual(deleted["Failed"][0]["Code"], "ReceiptHandleIsInvalid")

    def test_whole_batches_are_refused(self):
        url = fresh_queue()

        def batch_of(*ids, body="m"):
            return {"QueueUrl": url, "Entries": [{"Id": id, "MessageBody": body} for id in ids]}

        for code, batch in {
            "EmptyBatchRequest": batch_of(),
            "TooManyEntriesInBatchRequest": batch_of(*map(str, range(11))),
            "BatchEntryIdsNotDistinct": batch_of("a", "a"),
            "InvalidBatchEntryId": batch_of("a b"),
            "BatchRequestTooLong": batch_of("a", "b", body="x" * 524289),
        }.items():
            with self.subTest(code):
                self.refused("AWS.SimpleQueueService." + code, 400,
                             sqs.send_message_batch, **batch)
        with self.assertRaises(sqs.exceptions.BatchEntryIdsNotDistinct):
            sqs.send_message_batch(**batch_of("a", "a"))


class Waiting(Suite):
    def wakes(self, url, act):
        """Asserts that ACT ends a long poll that has begun; returns the message."""
        answers = []
        began = time.monotonic()
        poll = threading.Thread(target=lambda: answers.append(
            connect().receive_message(QueueUrl=url, WaitTimeSeconds=20)))
        poll.start()
        time.sleep(1)
        act()
        poll.join()
        self.assertLess(time.monotonic() - began, 10)
        [message] = answers[0]["Messages"]
        return message

    def test_a_send_ends_a_long_poll(self):
        url = fresh_queue()
        self.assertEqual(self.wakes(url, lambda: send(url, "awake"))["Body"], "awake")

    def test_the_end_of_a_delay_ends_a_long_poll(self):
        url = fresh_queue()
        self.wakes(url, lambda: send(url, "later", DelaySeconds=1))

    def test_giving_a_message_back_ends_a_long_poll(self):
        url = fresh_queue()
        send(url, "m")
        [message] = receive(url, WaitTimeSeconds=5)
        self.wakes(url, lambda: sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0))

    def test_an_empty_long_poll_lasts_its_time(self):
        began = time.monotonic()
        self.assertEqual(receive(fresh_queue(ReceiveMessageWaitTimeSeconds="1")), [])
        self.assertGreaterEqual(time.monotonic() - began, 0.9)

    def test_an_undeleted_message_returns_and_counts(self):
        url = fresh_queue(VisibilityTimeout="1")
        send(url, "m")
        [first] = receive(url, WaitTimeSeconds=5)
        [second] = receive(url, WaitTimeSeconds=10, AttributeNames=["ApproximateReceiveCount"])
        self.assertEqual(second["Attributes"], {"ApproximateReceiveCount": "2"})
        self.assertNotEqual(second["ReceiptHandle"], first["ReceiptHandle"])


class Fifo(Suite):
    def test_a_group_keeps_its_order_and_waits_for_its_head(self):
        url = fresh_fifo_queue(ContentBasedDeduplication="true")
        numbers = [send(url, f"m{n}", MessageGroupId="g")["SequenceNumber"] for n in range(3)]
        self.assertEqual(numbers, sorted(set(numbers)))
        self.assertTrue(all(len(number) == 20 for number in numbers))

        [head] = receive(url, count=1, AttributeNames=["All"], WaitTimeSeconds=5)
        self.assertEqual(head["Body"], "m0")
        self.assertEqual(head["Attributes"]["MessageGroupId"], "g")
        self.assertEqual(head["Attributes"]["SequenceNumber"], numbers[0])
        self.assertEqual(receive(url), [])
        sqs.delete_message(QueueUrl=url, ReceiptHandle=head["ReceiptHandle"])
        rest = receive(url, WaitTimeSeconds=5)
        self.assertEqual([message["Body"] for message in rest], ["m1", "m2"])

    def test_groups_do_not_wait_for_each_other(self):
        url = fresh_fifo_queue(ContentBasedDeduplication="true")
        send(url, "a", MessageGroupId="one")
        send(url, "b", MessageGroupId="two")
        [first] = receive(url, count=1, WaitTimeSeconds=5)
        [second] = receive(url, count=1, WaitTimeSeconds=5)
        self.assertEqual({first["Body"], second["Body"]}, {"a", "b"})

    def test_a_duplicate_is_answered_and_not_stored(self):
        url = fresh_fifo_queue()
        same = {"MessageGroupId": "g", "MessageDeduplicationId": "once"}
        first = send(url, "m", **same)
        self.assertEqual(send(url, "other", **same)["MessageId"], first["MessageId"])
        [message] = receive(url, WaitTimeSeconds=5)
        self.assertEqual(message["Body"], "m")
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        send(url, "m", **same)
        self.assertEqual(receive(url), [])

    def test_a_receive_attempt_is_answered_again(self):
        url = fresh_fifo_queue()
        send(url, "m", MessageGroupId="g", MessageDeduplicationId="d")
        [first] = receive(url, ReceiveRequestAttemptId="try", WaitTimeSeconds=5)
        [again] = receive(url, ReceiveRequestAttemptId="try")
        self.assertEqual(again["ReceiptHandle"], first["ReceiptHandle"])

    def test_sends_a_fifo_queue_cannot_take_are_refused(self):
        url = fresh_fifo_queue()
        self.refused("MissingParameter", 400, send, url=url, body="m")
        self.refused("InvalidParameterValue", 400, send, url=url, body="m", MessageGroupId="g")
        self.refused("InvalidParameterValue", 400, sqs.create_queue, QueueName=fresh_name(".fifo"))
