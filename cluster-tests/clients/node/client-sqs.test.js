// @aws-sdk/client-sqs against a running server. This SDK checks the MD5 of every body it sends and
// receives by itself and rejects a wrong one, so a plain round trip also proves the digests.

import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import * as sdk from "@aws-sdk/client-sqs";

const { SQS, paginateListQueues } = sdk;

// One attempt: an error is what the server said the first time.
const sqs = new SQS({ endpoint: process.env.HIKYAKU_ENDPOINT, maxAttempts: 1 });

const freshName = (suffix = "") => `node-${randomUUID()}${suffix}`;

async function freshQueue(Attributes) {
  return (await sqs.createQueue({ QueueName: freshName(), Attributes })).QueueUrl;
}

async function freshFifoQueue() {
  const Attributes = { FifoQueue: "true", ContentBasedDeduplication: "true" };
  return (await sqs.createQueue({ QueueName: freshName(".fifo"), Attributes })).QueueUrl;
}

async function receive(QueueUrl, rest = {}) {
  const answer = await sqs.receiveMessage({ QueueUrl, MaxNumberOfMessages: 10, ...rest });
  return answer.Messages ?? [];
}

// A typed error is an instance of the SDK's own class for it, and carries the HTTP status.
const refusal = (type, status) => (error) => {
  assert.ok(error instanceof sdk[type], `${error} is a ${type}`);
  assert.equal(error.$metadata.httpStatusCode, status);
  assert.ok(error.$metadata.requestId);
  return true;
};

test("a queue is created, found, listed and deleted", async () => {
  const QueueName = freshName();
  const { QueueUrl } = await sqs.createQueue({ QueueName, tags: { team: "mail" } });
  assert.equal((await sqs.getQueueUrl({ QueueName })).QueueUrl, QueueUrl);
  const listed = await sqs.listQueues({ QueueNamePrefix: QueueName });
  assert.deepEqual(listed.QueueUrls, [QueueUrl]);
  await sqs.deleteQueue({ QueueUrl });
  await assert.rejects(sqs.getQueueUrl({ QueueName }), refusal("QueueDoesNotExist", 400));
  await assert.rejects(sqs.createQueue({ QueueName }), refusal("QueueDeletedRecently", 400));
});

test("the same name with another attribute is refused", async () => {
  const QueueName = freshName();
  await sqs.createQueue({ QueueName });
  await assert.rejects(
    sqs.createQueue({ QueueName, Attributes: { DelaySeconds: "1" } }),
    refusal("QueueNameExists", 400),
  );
});

test("queues are listed page by page", async () => {
  const prefix = freshName("-");
  for (const number of [0, 1, 2]) await sqs.createQueue({ QueueName: prefix + number });
  const sizes = [];
  for await (const page of paginateListQueues(
    { client: sqs, pageSize: 2 },
    { QueueNamePrefix: prefix },
  )) {
    sizes.push(page.QueueUrls.length);
  }
  assert.deepEqual(sizes, [2, 1]);
});

test("attributes and tags are set and read back", async () => {
  const QueueUrl = await freshQueue({ VisibilityTimeout: "5" });
  await sqs.setQueueAttributes({ QueueUrl, Attributes: { VisibilityTimeout: "7" } });
  const { Attributes } = await sqs.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
  assert.equal(Attributes.VisibilityTimeout, "7");
  await assert.rejects(
    sqs.setQueueAttributes({ QueueUrl, Attributes: { Foobar: "1" } }),
    refusal("InvalidAttributeName", 400),
  );

  await sqs.tagQueue({ QueueUrl, Tags: { team: "mail", empty: "" } });
  await sqs.untagQueue({ QueueUrl, TagKeys: ["team"] });
  assert.deepEqual((await sqs.listQueueTags({ QueueUrl })).Tags, { empty: "" });
});

test("a message and its attributes survive the round trip", async () => {
  const QueueUrl = await freshQueue();
  const MessageBody = 'CR LF\r\n "quoted" <tag> & \u00e9 \u6f22 \u{1f600}';
  const MessageAttributes = {
    text: { DataType: "String.custom", StringValue: "x" },
    number: { DataType: "Number", StringValue: "42" },
    bytes: { DataType: "Binary", BinaryValue: new Uint8Array([0, 255, 10]) },
  };
  const sent = await sqs.sendMessage({ QueueUrl, MessageBody, MessageAttributes });
  const [message] = await receive(QueueUrl, {
    WaitTimeSeconds: 5,
    MessageAttributeNames: ["All"],
    MessageSystemAttributeNames: ["All"],
  });
  assert.equal(message.MessageId, sent.MessageId);
  assert.equal(message.Body, MessageBody);
  assert.equal(message.MD5OfBody, createHash("md5").update(MessageBody).digest("hex"));
  assert.equal(message.MD5OfMessageAttributes, sent.MD5OfMessageAttributes);
  assert.deepEqual(message.MessageAttributes, MessageAttributes);
  assert.equal(message.Attributes.ApproximateReceiveCount, "1");
  await sqs.deleteMessage({ QueueUrl, ReceiptHandle: message.ReceiptHandle });
});

test("batches answer entry by entry", async () => {
  const QueueUrl = await freshQueue();
  const sent = await sqs.sendMessageBatch({
    QueueUrl,
    Entries: [
      { Id: "good", MessageBody: "m" },
      { Id: "bad", MessageBody: "m", DelaySeconds: 901 },
    ],
  });
  assert.deepEqual(sent.Successful.map(({ Id }) => Id), ["good"]);
  assert.deepEqual(sent.Failed.map(({ Id, Code, SenderFault }) => ({ Id, Code, SenderFault })), [
    { Id: "bad", Code: "InvalidParameterValue", SenderFault: true },
  ]);
  const [{ ReceiptHandle }] = await receive(QueueUrl, { WaitTimeSeconds: 5 });
  const deleted = await sqs.deleteMessageBatch({
    QueueUrl,
    Entries: [{ Id: "good", ReceiptHandle }, { Id: "garbage", ReceiptHandle: "garbage" }],
  });
  assert.deepEqual(deleted.Successful, [{ Id: "good" }]);
  assert.equal(deleted.Failed[0].Code, "ReceiptHandleIsInvalid");
});

test("whole batches are refused by their own errors", async () => {
  const QueueUrl = await freshQueue();
  const batch = (...ids) => ({ QueueUrl, Entries: ids.map((Id) => ({ Id, MessageBody: "m" })) });
  for (const [type, input] of [
    ["EmptyBatchRequest", batch()],
    ["TooManyEntriesInBatchRequest", batch(..."abcdefghijk")],
    ["BatchEntryIdsNotDistinct", batch("a", "a")],
    ["InvalidBatchEntryId", batch("a b")],
  ]) {
    await assert.rejects(sqs.sendMessageBatch(input), refusal(type, 400));
  }
});

test("a bad receipt handle and a second purge are refused", async () => {
  const QueueUrl = await freshQueue();
  await assert.rejects(
    sqs.deleteMessage({ QueueUrl, ReceiptHandle: "garbage" }),
    refusal("ReceiptHandleIsInvalid", 404),
  );
  await sqs.purgeQueue({ QueueUrl });
  await assert.rejects(sqs.purgeQueue({ QueueUrl }), refusal("PurgeQueueInProgress", 403));
});

test("a send ends a long poll", async () => {
  const QueueUrl = await freshQueue();
  const began = Date.now();
  const poll = receive(QueueUrl, { WaitTimeSeconds: 20 });
  await sleep(1000);
  await sqs.sendMessage({ QueueUrl, MessageBody: "awake" });
  assert.equal((await poll)[0].Body, "awake");
  assert.ok(Date.now() - began < 10_000);
});

test("a long poll that is broken off takes no message with it", async () => {
  const QueueUrl = await freshQueue();
  const aborted = new AbortController();
  const poll = sqs.receiveMessage(
    { QueueUrl, WaitTimeSeconds: 20 },
    { abortSignal: aborted.signal },
  );
  await sleep(500);
  aborted.abort();
  await assert.rejects(poll, { name: "AbortError" });
  await sqs.sendMessage({ QueueUrl, MessageBody: "kept" });
  assert.equal((await receive(QueueUrl, { WaitTimeSeconds: 5 }))[0].Body, "kept");
});

test("visibility is given back and extended", async () => {
  const QueueUrl = await freshQueue();
  await sqs.sendMessage({ QueueUrl, MessageBody: "m" });
  const [first] = await receive(QueueUrl, { WaitTimeSeconds: 5 });
  const { ReceiptHandle } = first;
  const change = (VisibilityTimeout) =>
    sqs.changeMessageVisibility({ QueueUrl, ReceiptHandle, VisibilityTimeout });
  await change(60);
  assert.deepEqual(await receive(QueueUrl), []);
  await change(0);
  assert.equal((await receive(QueueUrl, { WaitTimeSeconds: 5 })).length, 1);
});

test("a FIFO queue keeps order and drops duplicates", async () => {
  const QueueUrl = await freshFifoQueue();
  for (const MessageBody of ["a", "b", "a", "c"]) {
    await sqs.sendMessage({ QueueUrl, MessageBody, MessageGroupId: "g" });
  }
  const messages = await receive(QueueUrl, { WaitTimeSeconds: 5 });
  assert.deepEqual(messages.map(({ Body }) => Body), ["a", "b", "c"]);
});
