"""A coding agent with a sandbox: Claude's tool_use (pip install anthropic) and a Sandkasten daemon.

Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and ANTHROPIC_API_KEY.
"""

import anthropic
from sandkasten import SandboxError
from sandkasten.sync import SandboxClient


def tool(name, description, *inputs):
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in inputs}, "required": list(inputs)}
    return {"name": name, "description": description, "input_schema": schema}


tools = [
    tool("exec", "Execute a shell command in the sandbox. Stateful: cd, env, bg jobs persist.", "cmd"),
    tool("write_file", "Write content to a file in the sandbox workspace.", "path", "content"),
    tool("read_file", "Read a file from the sandbox workspace.", "path"),
]


def use(session, name, input):
    if name == "exec":
        result = session.exec(input["cmd"])
        return f"exit={result.exit_code}\ncwd={result.cwd}\n---\n{result.output}"
    if name == "write_file":
        session.write(input["path"], input["content"])
        return f"wrote {input['path']}"
    return session.read(input["path"]).decode()


def result_of(session, call):
    result = {"type": "tool_result", "tool_use_id": call.id}
    try:
        return {**result, "content": use(session, call.name, call.input)}
    except (SandboxError, KeyError, UnicodeDecodeError) as error:
        # A failure is a result too, so that the model can correct itself.
        return {**result, "content": repr(error), "is_error": True}


claude = anthropic.Anthropic()
messages = [{"role": "user", "content": "Write a script that prints fibonacci numbers and run it"}]
with SandboxClient() as client, client.create_session() as session:
    while True:
        reply = claude.messages.create(
            model="claude-sonnet-4-5",
            max_tokens=4096,
            system="You have a Linux sandbox. Use exec, write_file, read_file.",
            tools=tools,
            messages=messages,
        )
        messages.append({"role": "assistant", "content": reply.content})
        calls = [block for block in reply.content if block.type == "tool_use"]
        if not calls:
            print("".join(block.text for block in reply.content if block.type == "text"))
            break
        messages.append({"role": "user", "content": [result_of(session, call) for call in calls]})
