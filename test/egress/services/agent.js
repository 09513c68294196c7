/** What an agent does with its model, inside a sandbox: 50 at once on port 80. Prints JSON. */
const model = 'http://model.sandkasten.internal'
const COUNT = 50

async function events(id) {
  const response = await fetch(`${model}/events?id=${id}`)
  let text = ''
  let seen = 0
  for await (const chunk of response.body) {
    text += Buffer.from(chunk).toString()
    for (; text.includes(`data: ${id} ${seen}\n\n`); seen += 1) {
      // All streams are open before the first one goes on.
      if (seen === 0) await allOpen(id)
      if (seen < 5) await (await fetch(`${model}/next?id=${id}&at=${seen + 1}`)).text()
    }
  }
  return seen
}

let open = 0
let release
const everybody = new Promise((resolve) => {
  release = resolve
})
function allOpen() {
  open += 1
  if (open === COUNT) release()
  return everybody
}

function talk(id) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket('ws://model.sandkasten.internal/talk')
    const large = `${id}`.padEnd(70_000, 'x')
    const said = [`hello ${id}`, large]
    const heard = []
    socket.onopen = () => socket.send(said[0])
    socket.onmessage = ({ data }) => {
      heard.push(data)
      if (heard.length < said.length) socket.send(said[heard.length])
      else {
        socket.close()
        resolve(heard.every((text, at) => text === said[at]))
      }
    }
    socket.onerror = ({ message }) => reject(new Error(message))
  })
}

async function post(id) {
  const response = await fetch(`${model}/v1/messages`, { method: 'POST', body: 'x'.repeat(1000 * (id + 1)) })
  return response.json()
}

const each = (act) => Promise.all(Array.from({ length: COUNT }, (_, id) => act(id)))
const streamed = await each(events)
const most = Number(await (await fetch(`${model}/most`)).text())
const talked = await each(talk)
const posted = await each(post)
console.log(JSON.stringify({ streamed, most, talked, posted }))
