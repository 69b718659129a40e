// sqs-consumer against a running server: batches, the visibility heartbeat, and failed handlers.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { SQS } from "@aws-sdk/client-sqs";
import { Consumer } from "sqs-consumer";

const sqs = new SQS({ endpoint: process.env.HIKYAKU_ENDPOINT, maxAttempts: 1 });

async function queueWith(bodies, Attributes) {
  const { QueueUrl } = await sqs.createQueue({ QueueName: `consumer-${randomUUID()}`, Attributes });
  for (const MessageBody of bodies) await sqs.sendMessage({ QueueUrl, MessageBody });
  return QueueUrl;
}

// How many messages the queue still holds, seen or unseen.
async function left(QueueUrl) {
  const { Attributes } = await sqs.getQueueAttributes({ QueueUrl, AttributeNames: ["All"] });
  return (
    Number(Attributes.ApproximateNumberOfMessages) +
    Number(Attributes.ApproximateNumberOfMessagesNotVisible)
  );
}

// Runs a consumer until its queue is empty; an error that is not the handler's own fails the test.
async function consume(options) {
  const consumer = Consumer.create({ sqs, waitTimeSeconds: 5, ...options });
  const errors = [];
  consumer.on("error", (error) => errors.push(error));
  consumer.start();
  const deadline = Date.now() + 30_000;
  const done = async () => (await left(options.queueUrl)) === 0;
  while (!(await done()) && errors.length === 0 && Date.now() < deadline) await sleep(50);
  const stopped = once(consumer, "stopped");
  // The poll that is open at the end is broken off rather than waited for.
  consumer.stop({ abort: true });
  await stopped;
  assert.deepEqual(errors, []);
  assert.ok(await done(), "the consumer emptied the queue");
}

test("messages are handled in batches and deleted", async () => {
  const bodies = Array.from({ length: 25 }, (_, number) => `m${number}`);
  const queueUrl = await queueWith(bodies);
  const seen = [];
  let largest = 0;
  await consume({
    queueUrl,
    batchSize: 10,
    handleMessageBatch: async (messages) => {
      largest = Math.max(largest, messages.length);
      seen.push(...messages.map(({ Body }) => Body));
      return messages;
    },
  });
  assert.deepEqual(seen.sort(), bodies.sort());
  assert.ok(largest > 1 && largest <= 10);
});

test("the heartbeat keeps a slow batch from coming again", async () => {
  const queueUrl = await queueWith(["a", "b"]);
  const seen = [];
  let intruded = 0;
  await consume({
    queueUrl,
    batchSize: 10,
    visibilityTimeout: 5,
    heartbeatInterval: 3,
    handleMessageBatch: async (messages) => {
      seen.push(...messages.map(({ Body }) => Body));
      const others = await sqs.receiveMessage({ QueueUrl: queueUrl, WaitTimeSeconds: 7 });
      intruded += others.Messages?.length ?? 0;
      // Ends between two beats: one that meets the delete would rightly be refused.
      await sleep(500);
      return messages;
    },
  });
  assert.deepEqual(seen.sort(), ["a", "b"]);
  assert.equal(intruded, 0);
});

test("a message whose handler failed comes again at once", async () => {
  const queueUrl = await queueWith(["m"], { VisibilityTimeout: "600" });
  const counts = [];
  await consume({
    queueUrl,
    terminateVisibilityTimeout: true,
    messageSystemAttributeNames: ["ApproximateReceiveCount"],
    handleMessage: async (message) => {
      counts.push(message.Attributes.ApproximateReceiveCount);
      if (counts.length === 1) throw new Error("the first try fails");
      return message;
    },
  });
  assert.deepEqual(counts, ["1", "2"]);
});

test("a consumer that stops finishes what it holds", async () => {
  const queueUrl = await queueWith(["m"]);
  let begun = false;
  const consumer = Consumer.create({
    sqs,
    queueUrl,
    waitTimeSeconds: 5,
    pollingCompleteWaitTimeMs: 10_000,
    handleMessage: async (message) => {
      begun = true;
      await sleep(500);
      return message;
    },
  });
  const processed = once(consumer, "message_processed");
  consumer.start();
  while (!begun) await sleep(20);
  const stopped = once(consumer, "stopped");
  consumer.stop();
  await Promise.all([processed, stopped]);
  assert.equal(await left(queueUrl), 0);
});

test("a queue that is not there is told as what it is", async () => {
  const queueUrl = (await queueWith([])) + "-absent";
  const consumer = Consumer.create({ sqs, queueUrl, handleMessage: async (message) => message });
  const failed = once(consumer, "error");
  consumer.start();
  const [error] = await failed;
  consumer.stop({ abort: true });
  assert.match(error.message, /queue does not exist/);
});
