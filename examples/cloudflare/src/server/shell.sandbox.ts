import { Sandbox } from '@cloudflare/sandbox'

export default class ShellSandbox extends Sandbox<Env> {}
