/** Prints our own warnings as one line. Node adds advice for programmers, which users of the command cannot follow. */
export function showWarnings(): void {
  const [usual] = process.listeners('warning')
  // NODE_NO_WARNINGS turns all warnings off.
  if (!usual) return
  process.removeAllListeners('warning')
  process.on('warning', (warning) => {
    if (warning.name === 'SandkastenWarning') console.error(`sandkasten: ${warning.message}`)
    else usual(warning)
  })
}
