/** The names of slots, which are `primary`, `backup-1` and so on. */

/** Name a slot as the page does: `backup-1` is "Backup 1". */
export function nameOf(slot: string): string {
  const words = slot.replace("-", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Return a slot's number: 0 is the primary. */
export function numberOf(slot: string): number {
  return Number(/\d+$/.exec(slot)?.[0] ?? 0);
}
