#!/usr/bin/env bash
# The AWS command line against a running server: the first hour of a new user, and scripts that
# look at exit statuses. Needs `aws` in the path and HIKYAKU_ENDPOINT.
set -euo pipefail

passed=0
prefix=awscli-$RANDOM$RANDOM

sqs() { aws --endpoint-url "$HIKYAKU_ENDPOINT" --output text sqs "$@"; }

# is WHAT EXPECTED ACTUAL
is() {
    if [[ $3 != "$2" ]]; then
        printf 'FAILED: %s\n  expected: %s\n  got:      %s\n' "$1" "$2" "$3" >&2
        exit 1
    fi
    passed=$((passed + 1))
}

# refused CODE COMMAND...: the command fails as an AWS error does, and names the code.
refused() {
    local code=$1 status=0 said
    shift
    said=$(sqs "$@" 2>&1) || status=$?
    is "exit status of a refused $1" 255 "$status" # 254 in version 2
    [[ $said == *"($code)"* ]] && return
    echo "FAILED: expected $code from: $*, got: $said" >&2
    exit 1
}

url=$(sqs create-queue --queue-name "$prefix" --attributes VisibilityTimeout=5 --tags team=mail)
is "the name in the URL" "$prefix" "${url##*/}"
is "get-queue-url" "$url" "$(sqs get-queue-url --queue-name "$prefix" --query QueueUrl)"
is "an attribute" 5 "$(sqs get-queue-attributes --queue-url "$url" \
    --attribute-names VisibilityTimeout --query Attributes.VisibilityTimeout)"
sqs set-queue-attributes --queue-url "$url" --attributes VisibilityTimeout=40
is "a changed attribute" 40 "$(sqs get-queue-attributes --queue-url "$url" \
    --attribute-names All --query Attributes.VisibilityTimeout)"
is "a tag" mail "$(sqs list-queue-tags --queue-url "$url" --query Tags.team)"

sqs create-queue --queue-name "$prefix-1" >/dev/null
sqs create-queue --queue-name "$prefix-2" >/dev/null
is "three queues in pages of two" 3 "$(sqs list-queues --queue-name-prefix "$prefix" \
    --page-size 2 --query 'QueueUrls[]' | wc -w)"
is "no queue" None "$(sqs list-queues --queue-name-prefix "$prefix-absent" --query QueueUrls)"

id=$(sqs send-message --queue-url "$url" --message-body 'from Edo to Osaka' \
    --message-attributes 'runner={DataType=String,StringValue=Kanbei}' --query MessageId)
read -r received runner handle < <(sqs receive-message --queue-url "$url" --wait-time-seconds 5 \
    --message-attribute-names All --query \
    'Messages[0].[MessageId,MessageAttributes.runner.StringValue,ReceiptHandle]')
is "the message's id" "$id" "$received"
is "the message's attribute" Kanbei "$runner"
sqs change-message-visibility --queue-url "$url" --receipt-handle "$handle" --visibility-timeout 0
handle=$(sqs receive-message --queue-url "$url" --wait-time-seconds 5 \
    --query 'Messages[0].ReceiptHandle')
sqs delete-message --queue-url "$url" --receipt-handle "$handle"
is "nothing is left" None "$(sqs receive-message --queue-url "$url" --query Messages)"

is "a batch" 2 "$(sqs send-message-batch --queue-url "$url" --entries \
    Id=a,MessageBody=one Id=b,MessageBody=two --query 'length(Successful)')"
refused AWS.SimpleQueueService.BatchEntryIdsNotDistinct send-message-batch --queue-url "$url" \
    --entries Id=a,MessageBody=one Id=a,MessageBody=two
sqs purge-queue --queue-url "$url"
refused AWS.SimpleQueueService.PurgeQueueInProgress purge-queue --queue-url "$url"

fifo=$(sqs create-queue --queue-name "$prefix.fifo" \
    --attributes FifoQueue=true,ContentBasedDeduplication=true)
for body in first second first; do
    sqs send-message --queue-url "$fifo" --message-body "$body" --message-group-id g >/dev/null
done
is "order, without the duplicate" "first second" "$(sqs receive-message --queue-url "$fifo" \
    --max-number-of-messages 10 --wait-time-seconds 5 --query 'Messages[].Body' | xargs)"

refused QueueAlreadyExists create-queue --queue-name "$prefix" --attributes DelaySeconds=9
refused ReceiptHandleIsInvalid delete-message --queue-url "$url" --receipt-handle garbage
sqs delete-queue --queue-url "$url"
refused AWS.SimpleQueueService.NonExistentQueue get-queue-url --queue-name "$prefix"

echo "$passed checks"
