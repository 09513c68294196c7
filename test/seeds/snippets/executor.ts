// src/lib/sandbox/executor.ts
export interface CommandResult {
  stdout: string;
  stderr: string;
  exitCode: number;
}

export interface SandboxExecutor {
  // Execute a command in the sandbox
  execute(command: string, args?: string[], options?: ExecuteOptions): Promise<CommandResult>;

  // File operations
  writeFile(path: string, content: string | Buffer): Promise<void>;
  readFile(path: string): Promise<string | null>;
  listFiles(path?: string): Promise<string[]>;

  // Lifecycle
  cleanup(): Promise<void>;
}

export interface ExecuteOptions {
  cwd?: string;
  env?: Record<string, string>;
  timeout?: number;
  sudo?: boolean;
}
