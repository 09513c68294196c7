import { Daytona } from '@daytona/sdk'

const daytona = new Daytona({
  apiKey: process.env.SANDKASTEN_API_KEY, // was: DAYTONA_API_KEY
  apiUrl: process.env.SANDKASTEN_DAYTONA_URL, // was: https://app.daytona.io/api
})

const sandbox = await daytona.create()
const { result, exitCode } = await sandbox.process.executeCommand('echo "on my own machine"')
console.log(exitCode, result.trim())
await sandbox.delete()
