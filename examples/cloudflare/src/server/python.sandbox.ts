import { Sandbox } from '@cloudflare/sandbox'

export default class PythonSandbox extends Sandbox<Env> {
  static image = 'docker.io/cloudflare/sandbox:0.12.10-python'
  static instanceType = 'basic'
  static maxInstances = 10
}
