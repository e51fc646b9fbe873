/** Reads the errors that the API answers. */

/** Return the sentences of an error that the API answered; "" for none. */
export function reasonIn(body: string): string {
  try {
    const { message = "", errors = {} } = JSON.parse(body) as {
      message?: string;
      errors?: Record<string, string[]>;
    };
    return Object.values(errors).flat().join(" ") || message;
  } catch {
    return "";
  }
}
