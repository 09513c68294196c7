/** The order of test files: the longest first, so that none of them runs alone at the end. */
import path from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { root } from './tools.ts'

/**
 * Files that take longer than twenty seconds, the longest first. Vitest knows durations only from earlier runs on the same
 * checkout, and otherwise starts the largest files first; the longest are small files that call a kit.
 */
export const longest = [
  'packages/engine/src/isolators/oci/privileges/ordinary-account.test.ts',
  'test/fronts/vercel/conformance.test.ts',
  'test/discord/clouds.test.ts',
  'test/discord/flows.test.ts',
  'test/threads/agents.test.ts',
  'test/doubles/sprites/conformance.test.ts',
  'test/fronts/daytona/conformance.test.ts',
  'packages/engine/src/provider/conformance/conformance.docker.test.ts',
  'test/fronts/e2b/conformance.test.ts',
  'test/doubles/hopx/conformance.test.ts',
  'packages/cli/test/code/terminal.test.ts',
  'test/clients/examples.test.ts',
  'packages/sdk/src/providers/ssh/conformance.test.ts',
  'packages/engine/src/provider/conformance/conformance.podman.test.ts',
  'test/agents-inside/rows.test.ts',
  'test/threads/conversations.test.ts',
  'test/threads/bridge.test.ts',
  'test/discord/inside.test.ts',
  'packages/threads/src/recovery.test.ts',
  'packages/threads/src/bridge/relay.test.ts',
  'test/clients/conformance.test.ts',
  'packages/engine/src/provider/conformance/conformance.test.ts',
  'packages/engine/src/provider/conformance/conformance-runsc.test.ts',
  'packages/cli/test/code/prompt.test.ts',
  'packages/sdk/src/providers/ssh/runner/conformance-runner.test.ts',
  'packages/registry/src/lifecycle/lifecycle.test.ts',
  'test/hostile-tenant/hostile-tenant.test.ts',
  'test/egress/services/services.test.ts',
  'packages/engine/src/provider/conformance/conformance.docker-bridge.test.ts',
  'packages/engine/src/provider/conformance/conformance-runc.test.ts',
  'packages/engine/src/isolators/docker/network/egress.test.ts',
  'packages/sdk/src/providers/local/conformance.test.ts',
  'test/discord/kills.test.ts',
  'test/agents-inside/kills.test.ts',
  'test/package/package.test.ts',
  'packages/engine/src/isolators/oci/escape-root.test.ts',
  'packages/registry/src/lifecycle/resume-faults.test.ts',
  'test/fronts/python-sdks.test.ts',
  'test/fronts/e2b/front.test.ts',
  'packages/cli/test/sandbox/terminal.test.ts',
  'packages/daemon/test/sessions/volumes.test.ts',
  'test/egress/command-line/audit.test.ts',
  'packages/engine/src/isolators/docker/escape.test.ts',
  'test/egress/ways-out/ways-out.docker.test.ts',
  'packages/registry/src/lifecycle/stop-faults.test.ts',
  'packages/sdk/src/testing/broken/broken.test.ts',
  'packages/registry/src/credentials/sealed-secrets.test.ts',
  'packages/cli/test/code/claude.test.ts',
  'packages/engine/src/isolators/oci/network/open-network.test.ts',
  'test/egress/command-line/secrets.test.ts',
  'test/agents-inside/credentials.test.ts',
  'packages/sdk/src/core/guest-shell.test.ts',
  'packages/daemon/test/access/tokens.test.ts',
  'test/agents-inside/worktrees.test.ts',
  'test/egress/ways-out/ways-out.runsc.test.ts',
  'test/egress/ways-out/ways-out.oci.test.ts',
  'packages/engine/src/provider/root-user.test.ts',
  'test/mcp/install.test.ts',
  'test/egress/clients/clients.test.ts',
  'test/clients/python.test.ts',
  'test/agents-inside/sandbox-only.test.ts',
  'packages/registry/src/lifecycle/list-faults.test.ts',
  'test/mcp/clients.test.ts',
  'packages/registry/src/lifecycle/create-faults.test.ts',
  'test/mcp/broker.test.ts',
  'packages/engine/src/isolators/oci/network/egress.test.ts',
  'packages/sdk/src/providers/ssh/runner/runner.test.ts',
  'test/agents-inside/failures.test.ts',
  'packages/daemon/test/access/token-keys.test.ts',
  'test/agents-inside/calls.test.ts',
  'packages/cli/test/pipes.test.ts',
  'packages/cli/test/sandbox/projects.test.ts',
  'test/agents-inside/claude.test.ts',
  'packages/registry/src/credentials/stored-credentials.test.ts',
  'packages/daemon/test/limits/policies.test.ts',
  'test/fronts/vercel/executor.test.ts',
  'test/egress/changes/changes.test.ts',
  'packages/registry/src/credentials/stored-secrets.test.ts',
  'test/egress/ways-out/ways-out.account.test.ts',
  'packages/registry/src/lifecycle/network.test.ts',
  'packages/cli/test/mcp/coverage.test.ts',
  'test/clients/volumes.test.ts',
  'test/mcp/agents.test.ts',
  'packages/daemon/test/access/token-ways.test.ts',
  'packages/registry/src/lifecycle/unknown-status.test.ts',
  'packages/engine/src/isolators/docker/limits/kernel-resources.test.ts',
] as const

/** The listed files first. Vitest orders the others. */
export default class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const index = (longest as readonly string[]).indexOf(path.relative(root, moduleId))
      return index === -1 ? longest.length : index
    }
    return (await super.sort(files)).sort((one, other) => rank(one) - rank(other))
  }
}
