"""What forbids an action in other languages is no task, and what complains in them is one."""

import pytest

from orchestrator.language.negation import split_negated
from tests.timing import seconds


@pytest.mark.parametrize(
    "text",
    [
        "Starte das Deployment nicht neu",
        "Bitte schick die E-Mail noch nicht ab",
        "Keine E-Mail an Bob senden",
        "Sende keine SMS an Ana",
        "No canceles el pedido 1001",
        "Por favor, no borres nada",
        "Ne redémarre pas le serveur",
        "N'envoie pas encore l'e-mail",
        "Non inviare l'email",
        "Não envie o e-mail",
    ],
)
def test_an_order_not_to_is_no_task(text: str) -> None:
    assert split_negated(text) == (text, (text,))


def test_what_is_asked_beside_it_stays() -> None:
    assert split_negated("Lösche die Datei nicht, zeig sie mir nur") == (
        "zeig sie mir nur",
        ("Lösche die Datei nicht",),
    )


@pytest.mark.parametrize(
    "text",
    [
        "Mein Server startet nicht",
        "Finde alle nicht bezahlten Rechnungen",
        "Zeige mir alle Kunden die noch nicht bezahlt haben",
        "Suche den Vertrag der noch nicht unterschrieben ist",
        "Zeige keine stornierten Bestellungen",
        "N'oublie pas de réserver un bureau",
        "Non dimenticare di prenotare una scrivania",
        "Anne kommt nicht",
        "Warum startet der Pod nicht?",
        "Ich kann mich nicht anmelden, setz mein Passwort zurück",
        "no me funciona el wifi, reinicia el router",
        "Je n'ai pas reçu la facture",
        "não consigo abrir o app, reinicia o serviço",
        "no idea, search the docs",
    ],
)
def test_a_complaint_forbids_nothing(text: str) -> None:
    assert split_negated(text) == (text, ())


def test_a_long_text_takes_no_time() -> None:
    assert seconds(lambda: split_negated("keine " + "a" * 3_900), runs=3) < 1
    assert seconds(lambda: split_negated("starte das " + "x " * 1_900), runs=3) < 1
