"""boto3 against a running server: credentials, queues and their attributes.

The same stories hold for the JSON dialect (botocore since 1.31.81) and for the Query dialect
(before it). DIALECT says which one the installed botocore must speak, so that a changed pin cannot
quietly test the other.
"""

import json
import os
import unittest
import urllib.error
import urllib.request

from botocore import UNSIGNED
from botocore.config import Config

from boto3_support import (
    Suite, attributes_of, connect, fresh_name, fresh_queue, receive, send, sqs)


class Dialect(Suite):
    def test_is_the_one_this_run_is_for(self):
        model = sqs.meta.service_model.metadata
        self.assertEqual(model["protocol"], os.environ["DIALECT"])


class Credentials(Suite):
    def test_a_wrong_secret_an_unknown_key_and_no_signature_are_refused(self):
        wrong = connect(aws_access_key_id=os.environ["AWS_ACCESS_KEY_ID"],
                        aws_secret_access_key="wrong")
        self.refused("SignatureDoesNotMatch", 403, wrong.list_queues)
        unknown = connect(aws_access_key_id="AKIDUNKNOWN", aws_secret_access_key="any")
        self.refused("InvalidClientTokenId", 403, unknown.list_queues)
        unsigned = connect(Config(signature_version=UNSIGNED))
        self.refused("MissingAuthenticationToken", 403, unsigned.list_queues)

    @unittest.skipIf(os.environ["DIALECT"] == "json", "a JSON request has no URL to hand on")
    def test_a_presigned_url_works_without_credentials_until_it_is_changed(self):
        url = fresh_queue()
        send(url, "by hand")
        presigned = sqs.generate_presigned_url("receive_message", {"QueueUrl": url},
                                               HttpMethod="GET")
        with urllib.request.urlopen(presigned) as answer:
            self.assertIn(b"<Body>by hand</Body>", answer.read())
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(presigned.replace("ReceiveMessage", "PurgeQueue"))
        self.assertEqual(caught.exception.code, 403)
        caught.exception.close()


class QueueLifeCycle(Suite):
    def test_queue_is_created_found_listed_and_deleted(self):
        name = fresh_name()
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        self.assertEqual(url.rsplit("/", 1)[1], name)
        self.assertEqual(sqs.get_queue_url(QueueName=name)["QueueUrl"], url)
        self.assertEqual(sqs.list_queues(QueueNamePrefix=name)["QueueUrls"], [url])

        sqs.delete_queue(QueueUrl=url)
        self.assertEqual(sqs.list_queues(QueueNamePrefix=name).get("QueueUrls", []), [])
        missing = "AWS.SimpleQueueService.NonExistentQueue"
        self.refused(missing, 400, sqs.get_queue_url, QueueName=name)
        self.refused(missing, 400, sqs.send_message, QueueUrl=url, MessageBody="late")

    def test_missing_queue_is_the_typed_exception(self):
        with self.assertRaises(sqs.exceptions.QueueDoesNotExist):
            sqs.get_queue_url(QueueName=fresh_name())

    def test_deleted_name_must_rest(self):
        name = fresh_name()
        sqs.delete_queue(QueueUrl=sqs.create_queue(QueueName=name)["QueueUrl"])
        code = "AWS.SimpleQueueService.QueueDeletedRecently"
        self.refused(code, 400, sqs.create_queue, QueueName=name)
        with self.assertRaises(sqs.exceptions.QueueDeletedRecently):
            sqs.create_queue(QueueName=name)

    def test_creating_again_compares_the_attributes(self):
        name = fresh_name()
        url = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "1"})["QueueUrl"]
        self.assertEqual(sqs.create_queue(QueueName=name)["QueueUrl"], url)
        again = sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "1"})
        self.assertEqual(again["QueueUrl"], url)
        error = self.refused("QueueAlreadyExists", 400, sqs.create_queue,
                             QueueName=name, Attributes={"DelaySeconds": "2"})
        self.assertIn("different value for attribute DelaySeconds", str(error))
        with self.assertRaises(sqs.exceptions.QueueNameExists):
            sqs.create_queue(QueueName=name, Attributes={"DelaySeconds": "2"})

    def test_bad_names_are_refused(self):
        for name in ["with space", "x" * 81]:
            self.refused("InvalidParameterValue", 400, sqs.create_queue, QueueName=name)

    def test_listing_comes_in_pages(self):
        prefix = fresh_name("-")
        names = [prefix + str(number) for number in range(5)]
        urls = {sqs.create_queue(QueueName=name)["QueueUrl"] for name in names}

        pages = list(sqs.get_paginator("list_queues").paginate(
            QueueNamePrefix=prefix, PaginationConfig={"PageSize": 2}))
        self.assertEqual([len(page["QueueUrls"]) for page in pages], [2, 2, 1])
        self.assertEqual({url for page in pages for url in page["QueueUrls"]}, urls)
        self.assertNotIn("NextToken", sqs.list_queues(QueueNamePrefix=prefix))

    def test_second_purge_within_a_minute_is_refused(self):
        url = fresh_queue()
        send(url, "gone")
        sqs.purge_queue(QueueUrl=url)
        self.assertEqual(receive(url), [])
        code = "AWS.SimpleQueueService.PurgeQueueInProgress"
        self.refused(code, 403, sqs.purge_queue, QueueUrl=url)
        with self.assertRaises(sqs.exceptions.PurgeQueueInProgress):
            sqs.purge_queue(QueueUrl=url)

    def test_tags_are_set_overwritten_and_removed(self):
        name = fresh_name()
        url = sqs.create_queue(QueueName=name, tags={"team": "mail", "empty": ""})["QueueUrl"]
        sqs.tag_queue(QueueUrl=url, Tags={"team": "post", "Team": "other"})
        sqs.untag_queue(QueueUrl=url, TagKeys=["empty", "absent"])
        self.assertEqual(sqs.list_queue_tags(QueueUrl=url)["Tags"],
                         {"team": "post", "Team": "other"})
        sqs.untag_queue(QueueUrl=url, TagKeys=["team", "Team"])
        self.assertNotIn("Tags", sqs.list_queue_tags(QueueUrl=url))


class QueueAttributes(Suite):
    def test_defaults_are_those_of_aws(self):
        attributes = attributes_of(fresh_queue(), "All")
        self.assertEqual(set(attributes), {
            "ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed",
            "ApproximateNumberOfMessagesNotVisible", "CreatedTimestamp", "DelaySeconds",
            "LastModifiedTimestamp", "MaximumMessageSize", "MessageRetentionPeriod", "QueueArn",
            "ReceiveMessageWaitTimeSeconds", "SqsManagedSseEnabled", "VisibilityTimeout"})
        self.assertEqual(attributes["VisibilityTimeout"], "30")
        self.assertEqual(attributes["MaximumMessageSize"], "1048576")
        self.assertEqual(attributes["MessageRetentionPeriod"], "345600")
        self.assertRegex(attributes["QueueArn"], r"^arn:aws:sqs:us-east-1:\d{12}:boto3-")

    def test_what_is_set_is_read_back(self):
        url = fresh_queue(VisibilityTimeout="5")
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "7"})
        self.assertEqual(attributes_of(url, "VisibilityTimeout"), {"VisibilityTimeout": "7"})
        self.assertEqual(attributes_of(url, "Policy"), {})
        self.assertEqual(attributes_of(url), {})

    def test_bad_attributes_are_refused(self):
        url = fresh_queue()
        self.refused("InvalidAttributeName", 400, sqs.get_queue_attributes,
                     QueueUrl=url, AttributeNames=["Foobar"])
        self.refused("InvalidAttributeValue", 400, sqs.set_queue_attributes,
                     QueueUrl=url, Attributes={"VisibilityTimeout": "43201"})
        self.refused("InvalidAttributeName", 400, sqs.create_queue,
                     QueueName=fresh_name(), Attributes={"FifoQueue": "false"})

    def test_counts_follow_a_message(self):
        url = fresh_queue()
        send(url, "ready")
        send(url, "later", DelaySeconds=900)
        receive(url, WaitTimeSeconds=5)
        counts = attributes_of(url, "ApproximateNumberOfMessages",
                               "ApproximateNumberOfMessagesNotVisible",
                               "ApproximateNumberOfMessagesDelayed")
        self.assertEqual(list(counts.values()).count("1"), 2)
        self.assertEqual(counts["ApproximateNumberOfMessages"], "0")


class DeadLetters(Suite):
    def setUp(self):
        self.dead = fresh_queue()
        arn = attributes_of(self.dead, "QueueArn")["QueueArn"]
        self.policy = '{"deadLetterTargetArn":"%s","maxReceiveCount":1}' % arn

    def test_a_redrive_policy_is_kept_and_its_target_must_exist(self):
        url = fresh_queue(RedrivePolicy=self.policy)
        self.assertEqual(attributes_of(url, "RedrivePolicy"), {"RedrivePolicy": self.policy})
        absent = self.policy.replace('","max', '-absent","max')
        error = self.refused("InvalidParameterValue", 400, sqs.set_queue_attributes,
                             QueueUrl=url, Attributes={"RedrivePolicy": absent})
        self.assertIn("Dead letter target does not exist", str(error))

    def test_a_message_received_too_often_moves_to_the_dead_letter_queue(self):
        url = fresh_queue(RedrivePolicy=self.policy)
        sent = send(url, "poison")
        self.assertEqual(len(receive(url, VisibilityTimeout=0, WaitTimeSeconds=5)), 1)
        self.assertEqual(receive(url), [])
        [message] = receive(self.dead, WaitTimeSeconds=5, AttributeNames=["All"])
        self.assertEqual((message["MessageId"], message["Body"]), (sent["MessageId"], "poison"))
        self.assertEqual(message["Attributes"]["DeadLetterQueueSourceArn"],
                         attributes_of(url, "QueueArn")["QueueArn"])


class Permissions(Suite):
    def test_a_permission_is_a_statement_until_it_is_removed(self):
        url = fresh_queue()
        arn = attributes_of(url, "QueueArn")["QueueArn"]
        grant = dict(QueueUrl=url, Label="read", AWSAccountIds=["111122223333"],
                     Actions=["ReceiveMessage"])
        sqs.add_permission(**grant)
        policy = json.loads(attributes_of(url, "Policy")["Policy"])
        self.assertEqual(policy["Statement"], [{
            "Sid": "read", "Effect": "Allow", "Action": "SQS:ReceiveMessage", "Resource": arn,
            "Principal": {"AWS": "arn:aws:iam::111122223333:root"}}])
        self.refused("InvalidParameterValue", 400, sqs.add_permission, **grant)
        sqs.remove_permission(QueueUrl=url, Label="read")
        self.assertEqual(attributes_of(url, "Policy"), {})
        self.refused("InvalidParameterValue", 400, sqs.remove_permission, QueueUrl=url,
                     Label="read")


class MoveTasks(Suite):
    setUp = DeadLetters.setUp

    def test_dead_letters_return_to_their_source_as_new_messages(self):
        url = fresh_queue(RedrivePolicy=self.policy)
        sent = send(url, "poison")
        self.assertEqual(len(receive(url, VisibilityTimeout=0, WaitTimeSeconds=5)), 1)
        self.assertEqual(receive(url), [])
        arn = attributes_of(self.dead, "QueueArn")["QueueArn"]
        sqs.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=500)
        [message] = receive(url, WaitTimeSeconds=20, AttributeNames=["All"])
        self.assertEqual(message["Body"], "poison")
        self.assertNotEqual(message["MessageId"], sent["MessageId"])
        self.assertEqual(message["Attributes"]["ApproximateReceiveCount"], "1")
        self.assertNotIn("DeadLetterQueueSourceArn", message["Attributes"])
        [task] = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
        self.assertEqual((task["SourceArn"], task["ApproximateNumberOfMessagesToMove"]), (arn, 1))

    def test_a_task_is_cancelled_by_its_handle(self):
        to = attributes_of(fresh_queue(RedrivePolicy=self.policy), "QueueArn")["QueueArn"]
        for _ in range(9):
            send(self.dead, "slow")
        arn = attributes_of(self.dead, "QueueArn")["QueueArn"]
        task = sqs.start_message_move_task(SourceArn=arn, DestinationArn=to,
                                           MaxNumberOfMessagesPerSecond=1)
        self.refused("InvalidParameterValue", 400, sqs.start_message_move_task, SourceArn=arn)
        moved = sqs.cancel_message_move_task(TaskHandle=task["TaskHandle"])
        self.assertLess(moved["ApproximateNumberOfMessagesMoved"], 9)
        self.refused("InvalidParameterValue", 400, sqs.cancel_message_move_task, TaskHandle="task")
        self.refused("ResourceNotFoundException", 404, sqs.list_message_move_tasks,
                     SourceArn=arn + "-absent")
