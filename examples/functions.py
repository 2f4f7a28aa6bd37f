"""Functions of an app, as its author would hand them to an agent framework: too many for each request."""

from collections.abc import Callable


def current_weather(city: str) -> str:
    """Get the weather in a city: sky, temperature and wind."""
    return f"{city}: grey, 4 degrees, light wind"


def refund_payment(payment: str, amount: float | None = None) -> str:
    """Give a customer the money of a payment back, in full or in part."""
    return f"{payment}: {amount or 'all of it'} refunded"


def create_ticket(title: str, text: str = "") -> str:
    """Open a support ticket for a customer's problem."""
    return f"ticket 7: {title}"


def find_customer(name: str) -> str:
    """Look up a customer's record by name."""
    return f"{name}: customer 12, since 2019"


def book_room(room: str, day: str) -> str:
    """Book a meeting room for a day."""
    return f"{room} is booked on {day}"


def send_email(to: str, subject: str, body: str = "") -> str:
    """Send an e-mail message."""
    return f"sent to {to}"


def translate_text(text: str, language: str) -> str:
    """Translate a text into another language."""
    return f"[{language}] {text}"


def stock_price(symbol: str) -> str:
    """Get the latest price of a share on the stock exchange."""
    return f"{symbol}: 101.5"


FUNCTIONS: tuple[Callable[..., str], ...] = (
    *(current_weather, refund_payment, create_ticket, find_customer),
    *(book_room, send_email, translate_text, stock_price),
)
