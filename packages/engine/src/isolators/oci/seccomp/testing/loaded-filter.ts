/** Reads the filter of a process from the kernel. For tests; needs root and perl. */
import { execFileSync } from 'node:child_process'
import { thisArchitecture } from '../../probe.ts'
import { policyFor } from '../allowed-calls.ts'
import type { Program } from '../bpf.ts'

/** Undefined if the kernel was built without checkpoint support. Stops the process briefly. */
export function loadedFilter(pid: number): Program | undefined {
  const ptrace = policyFor(thisArchitecture()).numbers.ptrace!
  const script = `
    my ($pid, $ptrace) = @ARGV;
    my $call = sub { syscall($ptrace, @_) };
    $call->(0x4206, $pid + 0, 0, 0) == 0 or die "seize: $!";
    $call->(0x4207, $pid + 0, 0, 0) == 0 or die "interrupt: $!";
    waitpid($pid, 0x40000000) == $pid or die "wait: $!";
    my $count = $call->(0x420c, $pid + 0, 0, 0);
    exit 3 if $count < 0;
    my $filter = "\\0" x (8 * $count);
    $call->(0x420c, $pid + 0, 0, $filter) == $count or die "filter: $!";
    print $filter;`
  try {
    const bytes = execFileSync('perl', ['-e', script, String(pid), String(ptrace)])
    const instructions = Array.from({ length: bytes.length / 8 }, (_, index) => bytes.subarray(index * 8))
    return instructions.map((bytes) => ({
      code: bytes.readUInt16LE(0),
      jt: bytes.readUInt8(2),
      jf: bytes.readUInt8(3),
      k: bytes.readUInt32LE(4),
    }))
  } catch (error) {
    if ((error as { status?: number }).status === 3) return undefined
    throw error
  }
}
