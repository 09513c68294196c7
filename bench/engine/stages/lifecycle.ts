/** From create to the end of the first command, and the destroy, measured on the same box. */
import { sampleOf, takeTurns } from '../../measure.ts'
import type { Subject } from '../subjects/subject.ts'
import type { Bench, Stage } from './stage.ts'

export const lifecycle: Stage = {
  title: 'Create to first command done; destroy',
  ids: [
    ...['crun.cold', 'crun.destroy', 'docker.cold', 'docker.destroy', 'engine.cold', 'engine.destroy'],
    ...['engine-docker.cold', 'engine-docker.destroy', 'engine-gvisor.cold', 'engine-gvisor.destroy'],
  ],
  async run({ crun, docker, ours, oursOnDocker, oursInGvisor, quick, report, wants }: Bench) {
    const subjects = [crun, docker, ours, oursOnDocker, oursInGvisor].filter(
      (subject): subject is Subject =>
        subject !== undefined && (wants(`${subject.name}.cold`) || wants(`${subject.name}.destroy`)),
    )
    const destroyed = new Map<string, number[]>(subjects.map(({ name }) => [name, []]))
    const turns = subjects.map((subject) => ({
      id: subject.name,
      samples: subject === docker || subject === oursOnDocker || subject === oursInGvisor ? 1 : 3,
      async measure() {
        const { ms, box } = await subject.cold()
        destroyed.get(subject.name)?.push(await box.destroy())
        return ms
      },
    }))
    const created = await takeTurns(
      turns,
      quick ? 5 : 25,
      (id, error) => report.fail(`${id}.cold`, error),
      50,
    )
    for (const { name } of subjects) {
      const values = created.get(name)
      if (!values) continue
      if (wants(`${name}.cold`)) report.add(`${name}.cold`, values)
      if (wants(`${name}.destroy`)) report.add(`${name}.destroy`, sampleOf(destroyed.get(name)!))
    }
  },
}
