export type BootstrapStage = 'inspect' | 'copy' | 'install' | 'start' | 'wait' | 'ready'

export interface BootstrapProgress {
  readonly stage: BootstrapStage
  /** One sentence, for people. */
  readonly message: string
}
