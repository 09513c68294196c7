const words: Readonly<Record<string, string>> = {
  '.': 'Unmodified',
  '?': 'Untracked',
  M: 'Modified',
  T: 'Modified',
  A: 'Added',
  D: 'Deleted',
  R: 'Renamed',
  C: 'Copied',
  U: 'Updated but unmerged',
}

interface FileStatus {
  name: string
  staging: string
  worktree: string
  extra: string
}

/** Translates `git status --porcelain=v2 --branch -z` to the vendor's format. */
export function statusView(text: string) {
  const facts = new Map<string, string>()
  const fileStatus: FileStatus[] = []
  const entries = text.split('\0')
  for (let at = 0; at < entries.length; at += 1) {
    const entry = entries[at]!
    const [, key, value] = /^# branch\.(\S+) (.*)$/s.exec(entry) ?? []
    if (key !== undefined) facts.set(key, value!)
    // 1 XY sub mH mI mW hH hI path · 2 XY sub mH mI mW hH hI Xscore path NUL from · u XY sub m1 m2 m3 mW h1 h2 h3 path
    const [, type, xy, name] =
      /^(1) (..) (?:\S+ ){6}(.*)$/s.exec(entry) ??
      /^(2) (..) (?:\S+ ){7}(.*)$/s.exec(entry) ??
      /^(u) (..) (?:\S+ ){8}(.*)$/s.exec(entry) ??
      /^(\?) ()(.*)$/s.exec(entry) ??
      []
    if (type === undefined) continue
    if (type === '2') at += 1
    const [staging, worktree] = type === '?' ? ['?', '?'] : type === 'u' ? ['U', 'U'] : [xy![0]!, xy![1]!]
    fileStatus.push({
      name: name!,
      staging: words[staging] ?? 'Unmodified',
      worktree: words[worktree] ?? 'Unmodified',
      extra: type === '2' ? entries[at]! : '',
    })
  }
  const head = facts.get('head') ?? ''
  const upstream = facts.get('upstream')
  const [, ahead, behind] = /^\+(\d+) -(\d+)$/.exec(facts.get('ab') ?? '') ?? []
  return {
    currentBranch: head,
    fileStatus,
    detached: head === '(detached)',
    branchPublished: upstream !== undefined,
    upstream,
    ahead: ahead && Number(ahead),
    behind: behind && Number(behind),
  }
}
