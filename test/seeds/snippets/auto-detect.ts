import type { SandboxProvider } from '@sandkasten/sdk'
import { DaytonaProvider } from '@sandkasten/sdk/daytona'
import { VercelProvider } from '@sandkasten/sdk/vercel'

function autoDetectProvider(): SandboxProvider | null {
  // Check env vars in priority order
  if (process.env.DAYTONA_API_KEY) {
    return new DaytonaProvider({
      apiKey: process.env.DAYTONA_API_KEY,
    })
  }
  if (
    process.env.VERCEL_TOKEN &&
    process.env.VERCEL_PROJECT_ID &&
    process.env.VERCEL_TEAM_ID
  ) {
    return new VercelProvider({
      token: process.env.VERCEL_TOKEN,
      projectId: process.env.VERCEL_PROJECT_ID,
      teamId: process.env.VERCEL_TEAM_ID,
    })
  }
  return null
}

export { autoDetectProvider }
