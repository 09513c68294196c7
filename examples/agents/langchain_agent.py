"""A coding agent with a sandbox: LangChain (pip install langchain langchain-anthropic) and a Sandkasten daemon.

Needs SANDKASTEN_URL, SANDKASTEN_API_KEY and ANTHROPIC_API_KEY.
"""

from langchain.agents import create_agent
from langchain.tools import tool
from sandkasten.sync import SandboxClient

client = SandboxClient()
session = client.create_session()


@tool
def exec(cmd: str, timeout_ms: int = 30000) -> str:
    """Execute a shell command in the sandbox. Stateful: cd, env, bg jobs persist."""
    result = session.exec(cmd, timeout_ms=timeout_ms)
    return f"exit={result.exit_code}\ncwd={result.cwd}\n---\n{result.output}"


@tool
def write_file(path: str, content: str) -> str:
    """Write content to a file in the sandbox workspace."""
    session.write(path, content)
    return f"wrote {path}"


@tool
def read_file(path: str) -> str:
    """Read a file from the sandbox workspace."""
    return session.read(path).decode()


agent = create_agent(
    "anthropic:claude-sonnet-4-5",
    tools=[exec, write_file, read_file],
    system_prompt="You have a Linux sandbox. Use exec, write_file, read_file.",
)

try:
    prompt = "Write a script that prints fibonacci numbers and run it"
    result = agent.invoke({"messages": [{"role": "user", "content": prompt}]})
    print(result["messages"][-1].text)
finally:
    session.destroy()
    client.close()
