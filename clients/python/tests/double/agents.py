"""A double of the agents framework for the first plan's snippet: its model always does the same."""


def function_tool(work):
    return work


class Agent:
    def __init__(self, name, instructions, tools):
        self.tools = {tool.__name__: tool for tool in tools}


class _Result:
    def __init__(self, final_output):
        self.final_output = final_output


class Runner:
    @staticmethod
    async def run(agent, prompt):
        script = "a, b = 0, 1\nfor _ in range(8):\n    print(a, end=' ')\n    a, b = b, a + b\n"
        said = [await agent.tools["write_file"]("fib.py", script)]
        said.append(await agent.tools["exec"]("mkdir -p sub && cd sub && python3 ../fib.py"))
        assert await agent.tools["read_file"]("fib.py") == script
        return _Result("\n".join(said))
