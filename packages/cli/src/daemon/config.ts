import { loadConfig, maskedConfig, showConfig } from '@sandkasten/daemon/config'

export async function checkConfig({
  config: file,
  json,
}: {
  config?: string
  json?: boolean
}): Promise<number> {
  const config = await loadConfig({ file })
  console.log(json ? JSON.stringify(maskedConfig(config), null, 2) : showConfig(config).trimEnd())
  return 0
}
