import { editFile } from './edit-file.ts'
import { getUrl } from './get-url.ts'
import { listFiles } from './list-files.ts'
import { readFile } from './read-file.ts'
import { readProcess } from './read-process.ts'
import { runCommand } from './run-command.ts'
import { search } from './search.ts'
import { snapshot } from './snapshot.ts'
import { startProcess } from './start-process.ts'
import { status } from './status.ts'
import { stopProcess } from './stop-process.ts'
import type { McpTool } from './tool.ts'
import { uploadFile } from './upload-file.ts'
import { writeFile } from './write-file.ts'

export { limits } from './limits.ts'
export { oneLine, shownName } from './text.ts'
export type { HostFile, McpTool, ToolContent, ToolContext, ToolResult } from './tool.ts'
export { failure } from './tool.ts'

/** All tools. With the server name `sandbox`, a model sees `sandbox_run_command` and so on. */
export const tools: readonly McpTool[] = [
  runCommand,
  writeFile,
  readFile,
  editFile,
  listFiles,
  search,
  startProcess,
  readProcess,
  stopProcess,
  getUrl,
  uploadFile,
  snapshot,
  status,
]
