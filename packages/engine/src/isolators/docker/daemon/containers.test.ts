import type { Container } from 'dockerode'
import { expect, it, vi } from 'vitest'
import { removeContainer } from './containers.ts'

const answer = (statusCode: number, cause: string) =>
  Object.assign(new Error(cause), { statusCode, json: { cause, message: cause } })

function containerWith(answers: Array<Error | undefined>) {
  let exists = true
  const remove = vi.fn(async () => {
    const error = answers.shift()
    if (error) throw error
    exists = false
  })
  const inspect = async () => {
    if (!exists) throw answer(404, 'no such container')
    return {}
  }
  return { container: { id: 'id', remove, inspect } as unknown as Container, remove }
}

it('removes a container again while Podman’s own cleanup still unmounts its disk', async () => {
  const { container, remove } = containerWith([
    answer(500, 'device or resource busy'),
    answer(409, 'removal in progress'),
    undefined,
  ])
  await removeContainer(container)
  expect(remove).toHaveBeenCalledTimes(3)
})

it('reports any other error of the daemon', async () => {
  const { container } = containerWith([answer(500, 'input/output error')])
  await expect(removeContainer(container)).rejects.toThrow('input/output error')
})
