import { expect, it } from 'vitest'
import { SteadyTime } from './steady-time.ts'

const day = 24 * 3600_000
const hour = 3600_000

function setUp() {
  const machine = { wall: 1_000 * day, count: 5 }
  const time = new SteadyTime({ now: () => machine.wall, elapsed: () => machine.count })
  const pass = (ms: number) => {
    machine.wall += ms
    machine.count += ms
  }
  return { machine, time, pass, start: machine.wall }
}

it('follows the clock of the machine, also when it drifts', () => {
  const { machine, time, pass, start } = setUp()
  for (let round = 0; round < 100; round += 1) {
    pass(hour)
    machine.wall += 30_000
    expect(time.now()).toBe(machine.wall)
  }
  expect(time.now()).toBe(start + 100 * (hour + 30_000))
})

it.each([day, -day])('goes on evenly when the clock jumps by %i ms', (jump) => {
  const { machine, time, pass, start } = setUp()
  machine.wall += jump
  expect(time.now()).toBe(start)
  pass(30_000)
  machine.count += 0.4
  expect(time.now()).toBe(start + 30_000)
  pass(hour - 60_000)
  expect(time.now()).toBe(start + hour - 30_000)
})

it('adopts the new time after an hour', () => {
  const { machine, time, pass } = setUp()
  machine.wall -= day
  time.now()
  pass(hour)
  expect(time.now()).toBe(machine.wall)
  pass(1000)
  expect(time.now()).toBe(machine.wall)
})

it('starts the hour again when the clock was right in between', () => {
  const { machine, time, pass, start } = setUp()
  machine.wall += day
  time.now()
  pass(hour / 2)
  machine.wall -= day
  time.now()
  pass(hour / 2)
  machine.wall += day
  expect(time.now()).toBe(start + hour)
})

it('counts a sleep of the machine as time', () => {
  const { time, pass, start } = setUp()
  pass(day)
  expect(time.now()).toBe(start + day)
})
