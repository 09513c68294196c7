#!/bin/sh
# A session with curl only. Needs SANDKASTEN_URL and SANDKASTEN_API_KEY, which `sandkasten up` prints.
set -eu
api() {
  method=$1 path=$2
  shift 2
  curl -sS --fail-with-body -X "$method" "$SANDKASTEN_URL/v1$path" -H "Authorization: Bearer $SANDKASTEN_API_KEY" "$@"
}

id=$(api POST /sessions -d '{"ttl_seconds": 600}' | sed 's/.*"id":"\([a-z0-9]*\)".*/\1/')

api POST "/sessions/$id/exec" -d '{"cmd": "cd /tmp && export NAME=curl"}' >/dev/null
api POST "/sessions/$id/exec" -d '{"cmd": "echo $NAME is in $PWD"}' | grep -o '"output":"[^"]*"'

printf 'print(6 * 7)\n' | api PUT "/sessions/$id/files?path=answer.py" --data-binary @- >/dev/null
api POST "/sessions/$id/run" -d '{"cmd": "cat", "args": ["answer.py"]}' | grep -o '"stdout":"[^"]*"'

# Stream the output as numbered events. The last one is `exit`.
api POST "/sessions/$id/exec" -N -H 'Accept: text/event-stream' -d '{"cmd": "echo one; echo two"}' | grep -o '^event: .*' | tail -n 1

api DELETE "/sessions/$id" | grep -o '"destroyed":[a-z]*'
