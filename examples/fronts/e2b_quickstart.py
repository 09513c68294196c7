"""E2B's Python SDK, unmodified. It reads E2B_API_KEY, E2B_API_URL and E2B_SANDBOX_URL."""

from e2b import CommandExitException, Sandbox

sandbox = Sandbox.create(timeout=120, envs={"GREETING": "Hello"}, metadata={"user": "ada"})

print(sandbox.commands.run('echo "$GREETING from a sandbox"').stdout.strip())

sandbox.files.write("notes/today.txt", "sand, sea")
print(sandbox.files.read("notes/today.txt"))
print([entry.name for entry in sandbox.files.list("notes")])

try:
    sandbox.commands.run("ls /nowhere")
except CommandExitException as error:
    print(type(error).__name__, error.exit_code)

command = sandbox.commands.run("cat", background=True, stdin=True)
sandbox.commands.send_stdin(command.pid, "typed\n")
for stdout, _, _ in command:
    print(stdout.strip())
    command.kill()
    break

watch = sandbox.files.watch_dir("notes")
sandbox.files.write("notes/tomorrow.txt", "rain")
while not any(event.name == "tomorrow.txt" for event in watch.get_new_events()):
    pass
watch.stop()

sandbox.pause()
again = Sandbox.connect(sandbox.sandbox_id)
print(again.files.read("notes/today.txt"))
print(again.kill())
