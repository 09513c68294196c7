/** A git server with one repository, `/project.git`, through git's own CGI program. */
import { execFileSync, spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Site } from './site.ts'

export function openGit(folder: string): Readonly<Record<string, Site>> {
  const project = join(folder, 'project.git')
  mkdirSync(folder, { recursive: true })
  const git = (...args: string[]) => execFileSync('git', args, { stdio: 'ignore' })
  git('init', '--bare', '--initial-branch=main', project)
  git('-C', project, 'config', 'http.receivepack', 'true')
  return {
    'git.allowed.example': ({ url = '/', method = 'GET', headers }, body, response) => {
      const { pathname, search } = new URL(url, 'http://site')
      const env = {
        PATH: process.env.PATH,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        // The folder belongs to root, and so does this process.
        GIT_CONFIG_COUNT: '1',
        GIT_CONFIG_KEY_0: 'safe.directory',
        GIT_CONFIG_VALUE_0: '*',
        REQUEST_METHOD: method,
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        CONTENT_TYPE: headers['content-type'] ?? '',
        CONTENT_LENGTH: String(body.length),
        HTTP_CONTENT_ENCODING: String(headers['content-encoding'] ?? ''),
        GIT_PROTOCOL: String(headers['git-protocol'] ?? ''),
        REMOTE_USER: 'tester',
      }
      const child = spawn('git', ['http-backend'], { env, stdio: ['pipe', 'pipe', 'inherit'] })
      const output: Buffer[] = []
      child.stdout.on('data', (data: Buffer) => output.push(data))
      child.on('close', () => {
        const whole = Buffer.concat(output)
        const end = whole.indexOf('\r\n\r\n')
        const fields = whole
          .toString('latin1', 0, Math.max(0, end))
          .split('\r\n')
          .map((line) => line.split(': ') as [string, string])
        const { Status: status = '200', ...rest } = Object.fromEntries(fields)
        response.writeHead(Number.parseInt(status, 10), rest)
        response.end(whole.subarray(end + 4))
      })
      child.stdin.on('error', () => {})
      child.stdin.end(body)
    },
  }
}
